"""Write real time series that statsmodels ships, as CSV files.

    python examples/make_series.py series

makes `series/sunspots.csv` (yearly, 1700 to 2008), `series/co2.csv` (monthly means of the carbon dioxide over Mauna
Loa, 1958 to 2001) and `series/sea.csv` (monthly temperature of the sea surface off Peru, 1950 to 2010). All three
are in the public domain, as statsmodels says. Install statsmodels with: pip install 'qkv[examples]'
"""

import argparse
from pathlib import Path
from typing import Any


def sunspots() -> Any:
    from statsmodels.datasets import sunspots

    table = sunspots.load_pandas().data
    return table.rename(columns={"YEAR": "time", "SUNACTIVITY": "sunspots"}).astype({"time": int}).set_index("time")


def co2() -> Any:
    from statsmodels.datasets import co2

    monthly = co2.load_pandas().data.resample("MS").mean()
    monthly.index = monthly.index.strftime("%Y-%m")
    return monthly.rename_axis("time").round(3)


def sea() -> Any:
    from statsmodels.datasets import elnino

    monthly = elnino.load_pandas().data.set_index("YEAR").stack()
    monthly.index = [f"{int(year)}-{month}" for year, month in monthly.index]
    return monthly.rename_axis("time").to_frame("temperature")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for make in (sunspots, co2, sea):
        make().to_csv(folder / f"{make.__name__}.csv")


if __name__ == "__main__":
    main()
