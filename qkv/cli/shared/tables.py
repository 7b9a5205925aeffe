"""Tables on stdout: framed on a terminal, aligned plain text elsewhere."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qkv.evaluation.report.tables import Table


def print_tables(tables: Sequence["Table"]) -> None:
    if not sys.stdout.isatty():
        print("\n\n".join("\n".join([table.title, *plain_lines(table)]) for table in tables))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console()
    for table in tables:
        shown = RichTable(title=Text(table.title), title_justify="left", box=box.SIMPLE_HEAD)
        for place, name in enumerate(table.header):
            shown.add_column(Text(name), justify="left" if place in table.words else "right")
        for row in table.rows:
            # Names of systems are file names: they contain no markup.
            shown.add_row(*map(Text, row))
        console.print(shown)


def plain_lines(table: "Table") -> list[str]:
    """The header and the rows, columns two spaces apart."""
    lines = [table.header, *table.rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place in table.words else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
