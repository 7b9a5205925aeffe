"""Every verb of the command line on a few lines: stdout is data, stderr is progress, exit codes say what happened."""

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from qkv.config import load_config
from qkv.models.saved.folder import load_model
from qkv.training.recipe import Recipe
from tests.support.commands import QKV as IN_SHELL
from tests.support.commands import in_shell
from tests.support.forks import Forks
from tests.support.tiny import plain, updates_of, write_recipe

QKV = [sys.executable, "-c", "import sys; sys.argv[0] = 'qkv'; from qkv.cli import main; main()"]


@pytest.fixture(scope="module")
def recipe(in_memory: Path, data: Path) -> Path:
    own = plain(data, in_memory / "cli", 8)
    own["data"]["test"] = {"kind": "text", "src": "test.src", "tgt": "test.tgt"}
    return write_recipe(in_memory / "cli.yaml", own)


@pytest.fixture(scope="module")
def run(recipe: Path, in_memory: Path, forks: Forks) -> Path:
    """Trained by the command line."""
    ended = forks.qkv("train", recipe, "training.stop_after=6u")
    assert ended.code == 0, ended.stderr
    assert ended.stdout == ""
    assert "update 4  dev loss" in ended.stderr
    assert ended.stderr.endswith(f"finished after update 6; the best model is in {in_memory / 'cli' / 'best'}\n")
    return in_memory / "cli"


def test_help_is_quick_and_light() -> None:
    """Under 300 ms (the best of five), without torch, pydantic or anything else that is heavy."""
    program = (
        "import sys\nfrom qkv.cli import main\nsys.argv = ['qkv', *sys.argv[1:]]\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    assert not stop.code\n"
        "heavy = {'torch', 'pydantic', 'numpy', 'sentencepiece', 'tokenizers', 'pyarrow', 'sacrebleu', 'ruamel'}\n"
        "print('HEAVY', sorted(heavy & sys.modules.keys()))"
    )
    # Typer itself takes pydantic to describe the options of a verb.
    for arguments, heavy in ((["--help"], []), (["train", "--help"], ["pydantic"]), (["--version"], [])):
        ended = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
        assert ended.stdout.splitlines()[-1] in (f"HEAVY {heavy}", "HEAVY []"), ended.stdout
        assert ended.stderr == ""
    # The time of the processor: other tests that run beside this one do not count.
    seconds = []
    for _ in range(5):
        child = subprocess.Popen([*QKV, "--help"], stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        assert child.returncode == 0
        seconds.append(used.ru_utime + used.ru_stime)
    assert min(seconds) < 0.3


@pytest.mark.parametrize(
    "command", [[Path(sys.executable).with_name("qkv")], [sys.executable, "-m", "qkv"]], ids=["script", "module"]
)
def test_installed_command(command: list[str | Path]) -> None:
    ended = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    assert ended.stdout.count(".") == 2


@pytest.mark.parametrize("arguments", [["--resume", "{run}"], ["{giant}"]], ids=["resume", "giant recipe"])
def test_what_can_be_refused_at_once_is_refused_before_torch_is_imported(arguments: list[str], scratch: Path) -> None:
    """A run that another process trains, and a recipe of 20,000 entries."""
    (scratch / "giant.yaml").write_text("".join(f"k{number}: 1\n" for number in range(20_000)))
    program = (
        "import sys\nfrom qkv.cli import main\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    print(stop.code, 'torch' in sys.modules)"
    )
    given = [each.format(run=scratch, giant=scratch / "giant.yaml") for each in arguments]
    with (scratch / "run.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ended = subprocess.run([sys.executable, "-c", program, "train", *given], capture_output=True, text=True)
    assert ended.stdout == "2 False\n", ended.stderr
    assert ended.stderr.startswith("qkv: ")
    assert "is being trained" in ended.stderr or "more than 4000 values" in ended.stderr


def test_wrong_use(forks: Forks) -> None:
    for arguments, words in (
        (["trian"], "Did you mean 'train'?"),
        (["train", "--resum", "x"], "--resume"),
        (["average", "x", "--out", "y", "--last", "0"], "--last"),
        (["demo", "--minutes", "zero"], "--minutes"),
        (["config", "nothing"], "No such command"),
    ):
        ended = forks.qkv(*arguments)
        assert ended.code == 2
        assert words in ended.stderr
        assert ended.stdout == ""
        assert "Traceback" not in ended.stderr
    nothing = forks.qkv("train")
    assert nothing.code == 2
    assert "qkv train --resume RUN" in nothing.complaint


def test_train_and_resume(run: Path, forks: Forks) -> None:
    ended = forks.qkv("train", "--resume", run, "training.stop_after=8u", "training.keep_last=5")
    assert ended.code == 0
    assert ended.stdout == ""
    assert [update for update, *_ in updates_of(run)] == list(range(1, 9))
    saved = load_config(Recipe, run / "config.yaml").training
    assert (str(saved.stop_after), saved.keep_last) == ("8u", 5)


def test_relative_paths_and_another_folder(data: Path, scratch: Path, forks: Forks) -> None:
    """A run started in one folder goes on from another."""
    own = plain(Path("data"), Path("runs/one"), 2)
    (scratch / "here").mkdir()
    (scratch / "here" / "data").symlink_to(data)
    write_recipe(scratch / "here" / "recipe.yaml", own)
    assert forks.qkv("train", "recipe.yaml", cwd=scratch / "here").code == 0
    ended = forks.qkv("train", "--resume", "here/runs/one", "training.stop_after=4u", cwd=scratch)
    assert ended.code == 0, ended.stderr
    assert len(updates_of(scratch / "here" / "runs" / "one")) == 4
    assert not (scratch / "runs").exists()


def test_average(run: Path, scratch: Path, forks: Forks) -> None:
    ended = forks.qkv("average", run, "--out", scratch / "average", "--last", 2)
    assert ended.code == 0, ended.stderr
    assert ended.stdout == ""
    assert "the average of step-" in ended.stderr
    load_model(scratch / "average")
    again = forks.qkv("average", run, "--out", scratch / "average", "--last", 2)
    assert (again.code, "exists already" in again.complaint) == (2, True)
    many = forks.qkv("average", run, "--out", scratch / "more", "--best", 99)
    assert (many.code, "not 99" in many.complaint) == (2, True)
    neither = forks.qkv("average", run, "--out", scratch / "more")
    assert (neither.code, "--last N or --best N" in neither.complaint) == (2, True)


def test_tokenizer(recipe: Path, scratch: Path, forks: Forks) -> None:
    out = scratch / "tokenizers"
    ended = forks.qkv("tokenizer", "train", recipe, "--out", out, "text.shared={kind: whitespace}")
    assert ended.code == 0, ended.stderr
    assert ended.stdout == ""
    assert f"\n{out}: " in "\n" + ended.stderr
    again = forks.qkv("tokenizer", "train", recipe, "--out", out)
    assert (again.code, "exists already" in again.complaint) == (2, True)
    here = forks.qkv("tokenizer", "train", recipe, "--out", ".", cwd=scratch)
    assert (here.code, "exists already" in here.complaint) == (2, True)

    text = b"abc  <pad> </s>\r\n\n\xff\xe2\x80\xa8x\n"
    encoded = subprocess.run([*QKV, "tokenizer", "encode", str(out)], input=text, capture_output=True, check=True)
    assert encoded.stderr == b""
    assert encoded.stdout.count(b"\n") == 3
    assert b"</s>" not in encoded.stdout
    wrong = forks.qkv("tokenizer", "encode", out, "--side", "left")
    assert (wrong.code, wrong.complaint) == (2, "--side left: must be src or tgt")
    nowhere = forks.qkv("tokenizer", "encode", scratch / "nowhere")
    assert nowhere.code == 1
    assert nowhere.complaint


def test_given_tokenizers_are_used(recipe: Path, scratch: Path, forks: Forks) -> None:
    """`tokenizers:` names a folder that `qkv tokenizer train` wrote; the run keeps its own copy."""
    forks.qkv("tokenizer", "train", recipe, "--out", scratch / "t", "data.train.src=train.tgt")
    run, folder = f"run={scratch / 'run'}", f"tokenizers={scratch / 't'}"
    assert forks.qkv("train", recipe, run, folder, "training.stop_after=2u").code == 0
    for path in (scratch / "t").rglob("*.*"):
        if path.name != "manifest.json":
            copy = scratch / "run" / "tokenizer" / path.relative_to(scratch / "t")
            assert copy.read_bytes() == path.read_bytes()
    missing = forks.qkv("train", recipe, f"run={scratch / 'other'}", f"tokenizers={scratch / 'none'}")
    assert missing.code == 1
    assert str(scratch / "none") in missing.complaint


def test_data_check(recipe: Path, forks: Forks) -> None:
    text = forks.qkv("data", "check", recipe)
    assert text.code == 0, text.stderr
    for words in ("train: 60 of 60 pairs kept", "dev: 12 of 12", "test: 5 of 5", "unknown", "duplicates", "padding"):
        assert words in text.stdout
    assert text.stdout.endswith("\n")
    ended = forks.qkv("data", "check", recipe, "--json")
    report = json.loads(ended.stdout)
    assert report["parts"]["train"]["store"]["kept"] == 60
    assert ended.stdout.endswith("}\n")
    assert len(report["samples"]) == 5


def test_config(recipe: Path, scratch: Path, forks: Forks) -> None:
    shown = forks.qkv("config", "show", recipe, "seed=7", "model.preset=tiny")
    assert (shown.code, shown.stderr) == (0, "")
    (scratch / "shown.yaml").write_text(shown.stdout)
    again = load_config(Recipe, scratch / "shown.yaml")
    assert again == load_config(Recipe, recipe, ["seed=7", "model.preset=tiny"])
    assert forks.qkv("config", "show", scratch / "shown.yaml").stdout == shown.stdout

    schema = json.loads(forks.qkv("config", "schema").stdout)
    assert schema["properties"].keys() == Recipe.model_fields.keys()
    reference = forks.qkv("config", "reference").stdout
    assert "| `training.stop_after` | a period" in reference
    assert forks.qkv("config", "show", "nowhere.yaml").code == 2


def test_output_that_goes_nowhere(recipe: Path) -> None:
    """A reader that leaves, a full disk, closed streams: never a traceback."""
    for command, code in (
        (f"{IN_SHELL} config schema | sleep 0", 0),
        (f"{IN_SHELL} config show {recipe} > /dev/full", 1),
        (f"{IN_SHELL} --version > /dev/full", 1),
        (f"{IN_SHELL} config show {recipe} >&-", 0),
        (f"{IN_SHELL} tokenizer encode nowhere <&-", 1),
    ):
        ended = in_shell(command)
        assert ended.returncode == code, (command, ended.stderr)
        assert ended.stderr.count("\n") == bool(code), ended.stderr
        assert ended.stderr.startswith("qkv: " if code else "")


def test_debug_shows_the_traceback(forks: Forks) -> None:
    ended = forks.qkv("--debug", "config", "show", "nowhere.yaml")
    assert ended.code == 2
    assert "Traceback" in ended.stderr
    assert "QKV_DEBUG" not in os.environ


def test_interrupted_while_preparing(recipe: Path, forks: Forks) -> None:
    """Ctrl-C before there is anything to save."""
    child = forks.start("tests.support.faults:interrupted_data_check", str(recipe))
    ended = child.wait(5)
    assert ended.code == 130
    assert "Traceback" not in ended.stderr
