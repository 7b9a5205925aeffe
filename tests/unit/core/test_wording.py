"""Wrong options of a command are refused in plain words."""

import pytest
from typer.testing import CliRunner

from qkv.cli.app import app


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["translate", "model", "--beam", "0"], "must be at least 1"),
        (["translate", "model", "--beam", "x"], "must be a whole number"),
        (["evaluate", "model", "--split", "tes"], "'--split': 'tes' is not one of"),
    ],
)
def test_a_wrong_option_is_refused_in_plain_words(arguments: list[str], words: str) -> None:
    ended = CliRunner().invoke(app, arguments)
    assert ended.exit_code == 2
    assert words in ended.output
    assert "Input should" not in ended.output
