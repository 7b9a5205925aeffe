"""One pass beside fifteen: greedy search of an autoregressive model and one pass of a CTC model, engine by engine.

    pip install 'qkv[fast,onnx]'
    python benchmarks/one_pass_speed.py [--presets tiny base] [--texts 40] [--repeats 5]

Random weights, 8,000 tokens; a source has 15 tokens, and so has an output of the autoregressive model. The CTC model
has one or two positions for each token of the source. One text at a time, one thread, all systems in turn on the same
text, the least of `--repeats` times each; told are the median and the median of the ratios to each baseline.
"""

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from decoding_kinds import System, one_at_a_time
from random_models import LENGTH, random_model, random_texts

from qkv.export.folder import export_model
from qkv.models.decoders.ctc import CtcConfig
from qkv.models.saved.folder import save_model
from qkv.models.transformer.config import TransformerConfig
from qkv.search.greedy import GreedyConfig

BASELINES = {"torch": "greedy, torch", "CTranslate2 int8": "greedy, ctranslate2 int8"}


def systems_of(preset: str, folder: Path) -> Iterator[System]:
    search = GreedyConfig(max_length=LENGTH)
    model = folder / "greedy"
    save_model(model, random_model(TransformerConfig(preset=preset)))
    export_model(model, "ctranslate2", folder / "ct2-int8", "int8")
    yield System("greedy, torch", preset, model, "torch", search)
    yield System("greedy, ctranslate2", preset, model, "ctranslate2", search)
    yield System("greedy, ctranslate2 int8", preset, folder / "ct2-int8", "auto", search)
    for upsample in (1, 2):
        name, one_pass = f"ctc, {upsample} a token", folder / f"ctc{upsample}"
        save_model(one_pass, random_model(TransformerConfig(preset=preset, decoder=CtcConfig(upsample=upsample))))
        export_model(one_pass, "onnx", folder / f"onnx{upsample}-int8", "int8")
        yield System(f"{name}, torch", preset, one_pass, "torch")
        yield System(f"{name}, onnxruntime", preset, one_pass, "onnxruntime")
        yield System(f"{name}, onnxruntime int8", preset, folder / f"onnx{upsample}-int8", "auto")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--presets", nargs="+", default=["tiny", "base"])
    parser.add_argument("--texts", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    against = " | ".join(f"times as fast as greedy, {name}" for name in BASELINES)
    print(f"| preset | system | one text, ms | {against} |\n|---|---|---|---|---|")
    for preset in options.presets:
        with tempfile.TemporaryDirectory() as scratch:
            systems = list(systems_of(preset, Path(scratch)))
            took = one_at_a_time(systems, random_texts(options.texts, 1), options.repeats)
        for name, own in ((name, alone.ms) for name, alone in took.items()):
            ratios = [median(a / b for a, b in zip(took[each].ms, own, strict=True)) for each in BASELINES.values()]
            said = " | ".join(f"{ratio:.2f}" for ratio in ratios)
            print(f"| {preset} | {name} | {median(own):.2f} | {said} |", flush=True)


if __name__ == "__main__":
    main()
