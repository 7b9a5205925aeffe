"""No public function answers a wrong argument with an error from inside."""

from pathlib import Path

from qkv.training.progress import SilentTrainingReporter
from qkv.training.trainer import Trainer
from tests.support.forks import Forks
from tests.support.tiny import as_recipe, plain


def test_wrong_arguments_get_a_sentence(data: Path, scratch: Path, forks: Forks) -> None:
    Trainer(as_recipe(plain(data, scratch / "run", 2)), SilentTrainingReporter()).train()
    ended = forks.call("tests.support.python_calls:refuse_wrong", str(scratch / "run"), str(scratch / "out"))
    assert ended.code == 0, ended.stderr
    assert not (scratch / "out").exists()
