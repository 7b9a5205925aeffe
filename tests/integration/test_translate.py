"""`qkv translate` and `qkv score`: a line for each line, jobs that are killed, and everything that can be wrong."""

import json
import os
import pty
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from qkv.decoding.texts import Wishes
from qkv.decoding.translator import Translator
from qkv.files import MANIFEST, seal
from qkv.models.weights import named_weights, write_tensors
from tests.support.forks import Child, Ended, Forks
from tests.support.speaker import save_speaker, sentences, speaker

QKV = f"'{sys.executable}' -c 'from qkv.cli import main; main()'"
TORCH = ("--engine", "torch")
GREEDY = ("search=greedy", "search.max_factor=1", *TORCH)


@pytest.fixture(scope="module")
def model(in_memory: Path) -> Path:
    return save_speaker(in_memory / "speaker")


@pytest.fixture(scope="module")
def lines(in_memory: Path) -> Path:
    """Sixty lines."""
    path = in_memory / "lines.txt"
    path.write_text("".join(line + "\n" for line in sentences(60)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def straight(model: Path, lines: Path, forks: Forks) -> str:
    """What the sixty lines give in one go."""
    ended = forks.qkv("translate", model, *GREEDY, stdin=lines)
    assert ended.code == 0, ended.stderr
    assert ended.stdout.count("\n") == 60
    assert len(set(ended.stdout.splitlines())) > 20
    return ended.stdout


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def quiet(ended: Ended) -> str:
    """The output of a command that went well."""
    assert ended.code == 0, ended.stderr
    assert "Traceback" not in ended.stderr
    return ended.stdout


def refused(ended: Ended, code: int) -> str:
    assert ended.code == code, ended.stderr
    return ended.complaint


@pytest.mark.parametrize(
    ("content", "count"),
    [
        (b"", 0),
        (b"\n", 1),
        (b"aa ab\n\nba\n", 3),
        (b"aa ab\r\n\r\nba\r\n", 3),
        (b"aa ab\nba", 2),
        (b"\xef\xbb\xbfaa ab\nzz zz\n \t \n", 3),
        ("aa\u2028ab\x0cba\rbb\n".encode(), 1),
    ],
)
def test_a_line_for_each_line(content: bytes, count: int, model: Path, scratch: Path, forks: Forks) -> None:
    given = written(scratch / "in", content)
    out = quiet(forks.qkv("translate", model, *GREEDY, stdin=given))
    assert out.count("\n") == count
    assert out == quiet(forks.qkv("translate", model, *GREEDY, "--input", given))
    texts = content.decode("utf-8-sig").replace("\r\n", "\n").removesuffix("\n").split("\n")
    blank = [not text.strip() for text in texts][:count]
    assert [not line for line in out.split("\n")[:-1]][: len(blank)] >= blank
    if content.startswith(b"aa ab\r\n"):
        assert out == quiet(forks.qkv("translate", model, *GREEDY, stdin=written(scratch / "lf", b"aa ab\n\nba\n")))


def test_a_person_is_answered_at_once(model: Path, straight: str, lines: Path, forks: Forks) -> None:
    keyboard, terminal = pty.openpty()
    child = forks.start_qkv("translate", model, *GREEDY, stdin=Path(os.ttyname(terminal)))
    for number, line in enumerate(lines.read_bytes().splitlines(keepends=True)[:3], start=1):
        os.write(keyboard, line)
        child.until(lambda count=number: child.out.read_bytes().count(b"\n") == count)
    os.write(keyboard, b"\x04")
    ended = child.wait()
    os.close(keyboard)
    os.close(terminal)
    assert quiet(ended).splitlines() == straight.splitlines()[:3]


def test_a_run_is_its_best_model(model: Path, lines: Path, straight: str, scratch: Path, forks: Forks) -> None:
    (scratch / "run").mkdir()
    (scratch / "run" / "best").symlink_to(model)
    assert quiet(forks.qkv("translate", scratch / "run", *GREEDY, stdin=lines)) == straight


def test_forms(model: Path, lines: Path, straight: str, forks: Forks) -> None:
    """--scores, --nbest and --json tell the same."""
    scored = quiet(forks.qkv("translate", model, *GREEDY, "--scores", stdin=lines)).splitlines()
    assert [line.split("\t")[1] for line in scored] == straight.splitlines()
    told = [
        json.loads(line) for line in quiet(forks.qkv("translate", model, *TORCH, "--json", stdin=lines)).splitlines()
    ]
    keys = {"line", "text", "score", "tokens", "token_scores", "truncated", "src_tokens", "alternatives"}
    assert all(set(one) == keys for one in told)
    assert [one["line"] for one in told] == list(range(1, 61))
    arguments = ("translate", model, *TORCH, "--beam", 3, "--nbest", 3)
    table = [line.split("\t") for line in quiet(forks.qkv(*arguments, stdin=lines)).splitlines()]
    assert [(int(line), int(rank)) for line, rank, _, _ in table] == [(n, r) for n in range(1, 61) for r in (1, 2, 3)]
    whole = quiet(forks.qkv(*arguments, "--json", "--alignment", stdin=lines)).splitlines()
    for number, one in enumerate(map(json.loads, whole)):
        each = [one, *one["alternatives"]]
        assert [[f"{other['score']:.6f}", other["text"]] for other in each] == [
            row[2:] for row in table[3 * number : 3 * number + 3]
        ]
        for other in each:
            assert len(other["alignment"]) == len(other["tokens"])
            assert all(len(row) == len(one["src_tokens"]) for row in other["alignment"])
    assert "add --json" in refused(forks.qkv("translate", model, "--alignment"), 2)


def test_an_output_is_one_line_whatever_is_in_it() -> None:
    from qkv.decoding.output import plain, table, with_score
    from qkv.decoding.translation import Translation

    wild = Translation("a\nb\r\nc\td\x0be", -1.0, [], [], [])
    assert plain(1, wild) == "a b  c d\x0be\n"
    assert with_score(1, wild).count("\n") == with_score(1, wild).count("\t") == 1
    assert table(1, wild).count("\t") == 3


def test_what_is_cut_is_told(model: Path, scratch: Path, forks: Forks) -> None:
    given = written(scratch / "in", b"aa\n" + b"aa ab ac ba bb\n" * 12 + b"ab\n")
    ended = forks.qkv("translate", model, *GREEDY, "search.max_extra=50", "max_src_tokens=4", stdin=given)
    assert quiet(ended).count("\n") == 14
    assert "standard input:2: too long: only its first 3 tokens were translated" in ended.stderr
    assert ended.stderr.count("too long") == 10
    assert "12 lines in all were cut" in ended.stderr
    assert "standard input:1:" not in ended.stderr


def test_settings_that_are_wrong(model: Path, forks: Forks) -> None:
    for arguments, words in (
        (["search.sise=3"], 'did you mean "size"?'),
        (["search=beem"], "beam"),
        (["batch_tokens=0"], "batch_tokens"),
        (["--beam", "2", "--nbest", "3"], "cannot give 3 hypotheses"),
        (["--output", "x"], "--input"),
        (["--engine", "warp"], "ctranslate2"),
        (["--invalid-utf8", "skip"], "replace"),
    ):
        ended = forks.qkv("translate", model, *TORCH, *arguments, stdin=Path(__file__))
        assert ended.code == 2, (arguments, ended.stderr)
        assert words in ended.stderr
        assert "Traceback" not in ended.stderr
        assert ended.stdout == ""


def test_input_that_is_no_text(model: Path, scratch: Path, forks: Forks) -> None:
    invalid = written(scratch / "in", b"aa\nab \xff\xfe ba\nbb\n")
    for given in ({"stdin": invalid}, {}):
        arguments = [] if given else ["--input", invalid]
        sentence = refused(forks.qkv("translate", model, *GREEDY, *arguments, **given), 1)
        assert sentence.startswith(f"{'standard input' if given else invalid}:2:4: not valid UTF-8")
        assert "--invalid-utf8 replace" in sentence
        replaced = forks.qkv("translate", model, *GREEDY, "--invalid-utf8", "replace", *arguments, **given)
        assert quiet(replaced).count("\n") == 3
    binary = written(scratch / "binary", random.Random(0).randbytes(5000))
    assert "standard input:1:" in refused(forks.qkv("translate", model, *GREEDY, stdin=binary), 1)
    zeros = written(scratch / "zeros", bytes(100))
    assert "not valid UTF-8" in refused(forks.qkv("translate", model, *GREEDY, "--input", zeros), 1)
    assert "no such file" in refused(forks.qkv("translate", model, *GREEDY, "--input", scratch / "none"), 1)
    assert "cannot be read" in refused(forks.qkv("translate", model, *GREEDY, "--input", scratch), 1)


def seal_again(folder: Path) -> None:
    (folder / MANIFEST).unlink()
    seal(folder, {"what": "model"})


def test_models_that_are_wrong(model: Path, lines: Path, scratch: Path, forks: Forks) -> None:
    def sentence(folder: object, *more: object, code: int = 1) -> str:
        ended = forks.qkv("translate", folder, *GREEDY, *more, stdin=lines)
        assert ended.stdout == ""
        return refused(ended, code)

    assert "no such folder" in sentence(scratch / "none")
    (scratch / "empty").mkdir()
    assert "holds no model" in sentence(scratch / "empty")
    (scratch / "young" / "checkpoints").mkdir(parents=True)
    assert "has no best model yet" in sentence(scratch / "young")
    broken = save_speaker(scratch / "broken")
    weights = broken / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x7f")
    assert "has changed since it was written" in sentence(broken)
    os.truncate(weights, 100)
    assert "has changed since it was written" in sentence(broken)
    weights.unlink()
    assert "is missing" in sentence(broken)
    sick = speaker()
    with torch.no_grad():
        next(sick.model.decoder.parameters())[0] = torch.nan
    folder = save_speaker(scratch / "sick")
    write_tensors(folder / "model.safetensors", named_weights(sick.model))
    seal_again(folder)
    assert "not finite" in sentence(folder)
    other = save_speaker(scratch / "other")
    vocabulary = next((other / "tokenizer").rglob("vocabulary.json"))
    vocabulary.write_text(vocabulary.read_text().replace('"cc"', '"CC"'))
    seal_again(other)
    assert "has another vocabulary than" in sentence(model, "--with", other, code=2)
    assert quiet(forks.qkv("translate", model, *GREEDY, "--with", model, stdin=lines)).count("\n") == 60


def test_prefixes(model: Path, lines: Path, scratch: Path, forks: Forks) -> None:
    prefixes = written(scratch / "prefixes", b"cc ba\n\n" * 30)
    out = quiet(forks.qkv("translate", model, *GREEDY, "--prefix-file", prefixes, stdin=lines))
    assert all(line.startswith("cc ba") for line in out.splitlines()[::2])
    short = written(scratch / "short", b"cc ba\n")
    sentence = refused(forks.qkv("translate", model, *GREEDY, "--prefix-file", short, stdin=lines), 1)
    assert sentence == f"{short}: has only 1 lines, but standard input has more; give one for each"


def test_output_that_goes_nowhere(model: Path, lines: Path) -> None:
    """A reader that leaves, a full disk, closed streams: never a traceback."""
    greedy = " ".join(GREEDY)
    for command, code in (
        (f"for i in 1 2 3 4 5 6 7 8 9; do cat {lines}; done | {QKV} translate {model} {greedy} | head -1", 0),
        (f"{QKV} translate {model} {greedy} < {lines} > /dev/full", 1),
        (f"{QKV} translate {model} {greedy} < {lines} >&-", 0),
        (f"{QKV} translate {model} {greedy} <&-", 0),
    ):
        ended = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
        assert ended.returncode == code, (command, ended.stderr)
        told = [line for line in ended.stderr.splitlines() if not line.startswith("standard input:")]
        assert told == (["qkv: standard output: No space left on device"] if code else [])


def job(model: Path, lines: Path, output: Path, *more: object) -> list[str]:
    return [str(word) for word in ("translate", model, *GREEDY, "--input", lines, "--output", output, *more)]


def test_a_job_is_killed_again_and_again(model: Path, lines: Path, straight: str, scratch: Path, forks: Forks) -> None:
    """kill -9 at random moments; each start goes on, and the output is that of one go, byte for byte."""
    output, source = scratch / "out", random.Random()
    began, kills = time.monotonic(), 0
    slowly = ("tests.support.translating:slowly", 4, 0.1, *job(model, lines, output))
    while True:
        child = forks.start(*slowly)
        # The first one is too short for the whole job; on a busy machine later ones are long enough.
        end = time.monotonic() + source.uniform(0.1, 1.2 + 0.2 * kills)
        while time.monotonic() < end and (code := child.poll()) is None:
            time.sleep(0.01)
        if code == 0:
            break
        assert not output.exists() or kills
        os.kill(child.pid, signal.SIGKILL)
        kills += 1
        child.wait()
        assert time.monotonic() - began < 120
    assert kills
    assert output.read_text() == straight
    assert [path.name for path in scratch.iterdir()] == ["out"]


def test_a_job_that_died_goes_on_where_it_was(
    model: Path, lines: Path, straight: str, scratch: Path, forks: Forks
) -> None:
    output = scratch / "out"
    child = forks.start("tests.support.translating:slowly", 4, 0.1, *job(model, lines, output))
    journal = scratch / "out.journal"
    child.until(lambda: journal.exists() and journal.read_bytes().count(b"\n") > 3)
    # Two at once would spoil it.
    assert "another process is at work" in refused(forks.qkv(*job(model, lines, output)), 2)
    child.send(signal.SIGKILL)
    child.wait()
    assert not output.exists()
    # Another input, model or setting would make another output.
    other = written(scratch / "other", b"aa\n" * 60)
    assert "another input" in refused(forks.qkv(*job(model, other, output)), 2)
    changed = refused(forks.qkv(*job(model, lines, output, "search.max_extra=3")), 2)
    assert "another search" in changed
    assert "--restart" in changed
    assert "another form of output" in refused(forks.qkv(*job(model, lines, output, "--scores")), 2)
    ended = forks.start("tests.support.translating:in_small_chunks", 4, *job(model, lines, output)).wait()
    assert quiet(ended) == ""
    assert f"{output}: going on after line " in ended.stderr
    assert output.read_text() == straight
    # Done again from the start, it gives the same.
    assert quiet(forks.qkv(*job(model, lines, output, "--restart"))) == ""
    assert output.read_text() == straight


def test_a_job_on_a_full_disk(model: Path, scratch: Path, forks: Forks) -> None:
    """What fits is kept, and with more room the job goes on."""
    given = written(scratch / "in", "".join(line + "\n" for line in sentences(300)).encode())
    arguments = job(model, given, scratch / "out")
    straight = quiet(forks.qkv("translate", model, *GREEDY, stdin=given))
    ended = forks.call("tests.support.translating:with_small_files", 4000, 100, *arguments)
    assert ended.code == 1
    assert f"{scratch / 'out'}.part: cannot be written (File too large); what was done is kept" in ended.complaint
    again = forks.start("tests.support.translating:in_small_chunks", 100, *arguments).wait()
    assert quiet(again) == ""
    assert "going on after line 100" in again.stderr
    assert (scratch / "out").read_text() == straight


def test_where_a_job_cannot_write(model: Path, lines: Path, scratch: Path, forks: Forks) -> None:
    own = written(scratch / "own", lines.read_bytes())
    assert "is also the input" in refused(forks.qkv(*job(model, own, own)), 2)
    assert "cannot be written" in refused(forks.qkv(*job(model, lines, scratch / "no" / "out")), 1)
    assert "is not a file" in refused(forks.qkv(*job(model, lines, scratch)), 2)
    assert own.read_bytes() == lines.read_bytes()


def children(pid: int) -> list[int]:
    """The processes that `pid` has started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(path.parent.name))
    return found


def gone(pids: list[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9), (signal.SIGTERM, -15)])
def test_no_worker_outlives_its_parent(number: int, code: int, model: Path, lines: Path, forks: Forks) -> None:
    child: Child = forks.start("tests.support.translating:with_workers", "translate", str(model), stdin=lines)
    child.until(lambda: len(children(child.pid)) == 2)
    workers = children(child.pid)
    child.send(number)
    ended = child.wait(10)
    assert ended.code == code
    assert "Traceback" not in ended.stderr
    end = time.monotonic() + 10
    while not gone(workers):
        assert time.monotonic() < end
        time.sleep(0.02)


def test_score(model: Path, lines: Path, scratch: Path, forks: Forks) -> None:
    """The scores that the search has given to its own output."""
    told = quiet(
        forks.qkv("translate", model, "search=greedy", "--engine", "torch", "--json", stdin=lines)
    ).splitlines()
    own = [one for one in map(json.loads, told) if not one["truncated"]]
    assert len(own) > 5
    sources = [" ".join(one["src_tokens"][:-1]) for one in own]
    src = written(scratch / "src", "".join(text + "\n" for text in sources).encode())
    tgt = written(scratch / "tgt", "".join(one["text"] + "\n" for one in own).encode())
    ended = forks.qkv("score", model, "--src", src, "--tgt", tgt)
    rows = [[float(number) for number in line.split("\t")] for line in quiet(ended).splitlines()]
    for (total, mean), one in zip(rows, own, strict=True):
        assert total == pytest.approx(one["score"], abs=1e-4)
        assert mean == pytest.approx(total / len(one["token_scores"]), abs=1e-5)
    assert f"{len(own)} pairs" in ended.stderr
    assert "perplexity" in ended.stderr
    detailed = quiet(forks.qkv("score", model, "--src", src, "--tgt", tgt, "--json", "--with", model)).splitlines()
    assert [json.loads(line)["tokens"] for line in detailed] == [one["tokens"] for one in own]
    short = written(scratch / "short", b"aa\n")
    assert "has only 1 lines" in refused(forks.qkv("score", model, "--src", src, "--tgt", short), 1)
    assert "has only 1 lines" in refused(forks.qkv("score", model, "--src", short, "--tgt", tgt), 1)


def test_the_fast_engine(model: Path, lines: Path, straight: str, scratch: Path, forks: Forks) -> None:
    """auto takes it; it gives the same; what it cannot do is done by torch or, if it was asked for, refused."""
    pytest.importorskip("ctranslate2")
    from qkv.interop.ctranslate2 import export_ctranslate2
    from qkv.models.folder import load_model

    assert Translator(model).decoder(Wishes()).engine.name == "ctranslate2"
    assert Translator(model).decoder(Wishes(prefixes=True)).engine.name == "torch"
    arguments = ("translate", model, "search=greedy", "search.max_factor=1")
    assert quiet(forks.qkv(*arguments, "--engine", "ctranslate2", stdin=lines)) == straight
    assert quiet(forks.qkv(*arguments, stdin=lines)) == straight
    sampled = ("translate", model, "search=sample")
    assert quiet(forks.qkv(*sampled, stdin=lines)).count("\n") == 60
    assert "ctranslate2 cannot do this" in refused(forks.qkv(*sampled, "--engine", "ctranslate2", stdin=lines), 2)
    export_ctranslate2(load_model(model), scratch / "exported")
    exported = ("translate", scratch / "exported", "search=greedy", "search.max_factor=1")
    assert quiet(forks.qkv(*exported, stdin=lines)) == straight
    assert "was exported" in refused(forks.qkv(*exported, "--engine", "torch", stdin=lines), 2)
    assert "was exported" in refused(forks.qkv(*exported, "--with", model, stdin=lines), 2)
    assert "was exported" in refused(forks.qkv("score", scratch / "exported", "--src", lines, "--tgt", lines), 2)
