"""`qkv translate` and `qkv score`: a line for each line, and everything that can be wrong."""

import json
import os
import pty
import random
from functools import partial
from pathlib import Path

import pytest
import torch

from qkv.core.files import MANIFEST, write_manifest
from qkv.models.saved.weights import named_weights, write_tensors
from qkv.translate.texts import DecodeOptions
from qkv.translate.translator import Translator
from tests.support.commands import GREEDY, QKV, TORCH, in_shell, quiet, refused, written, written_lines
from tests.support.forks import Forks
from tests.support.small import transformer
from tests.support.speaker import save_speaker, speaker


@pytest.fixture(scope="module")
def model(in_memory: Path) -> Path:
    return save_speaker(in_memory / "speaker")


@pytest.fixture(scope="module")
def lines(in_memory: Path) -> Path:
    return written_lines(in_memory / "lines.txt")


@pytest.fixture(scope="module")
def straight(model: Path, lines: Path, forks: Forks) -> str:
    """What the sixty lines give in one go."""
    ended = forks.qkv("translate", model, *GREEDY, stdin=lines)
    assert ended.code == 0, ended.stderr
    assert ended.stdout.count("\n") == 60
    assert len(set(ended.stdout.splitlines())) > 20
    return ended.stdout


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
    pairs = list(zip(texts[:count], out.split("\n")[:-1], strict=True))
    assert [line for text, line in pairs if not text.strip()] == [""] * sum(not text.strip() for text, _ in pairs)
    if content.startswith(b"aa ab\r\n"):
        assert out == quiet(forks.qkv("translate", model, *GREEDY, stdin=written(scratch / "lf", b"aa ab\n\nba\n")))


def has_lines(path: Path, count: int) -> bool:
    return path.read_bytes().count(b"\n") == count


def test_a_person_is_answered_at_once(model: Path, straight: str, lines: Path, forks: Forks) -> None:
    keyboard, terminal = pty.openpty()
    child = forks.start_qkv("translate", model, *GREEDY, stdin=Path(os.ttyname(terminal)))
    for number, line in enumerate(lines.read_bytes().splitlines(keepends=True)[:3], start=1):
        os.write(keyboard, line)
        child.until(partial(has_lines, child.out, number))
    os.write(keyboard, b"\x04")
    ended = child.wait()
    os.close(keyboard)
    os.close(terminal)
    assert quiet(ended).splitlines() == straight.splitlines()[:3]


def test_a_run_is_its_best_model(model: Path, lines: Path, straight: str, scratch: Path, forks: Forks) -> None:
    (scratch / "run").mkdir()
    (scratch / "run" / "best").symlink_to(model)
    assert quiet(forks.qkv("translate", scratch / "run", *GREEDY, stdin=lines)) == straight


def test_unknown_words_are_counted_and_said(model: Path, scratch: Path, forks: Forks) -> None:
    given = written(scratch / "in", b"aa zebra\nab ba\nzebra dog\n")
    said = (
        f"{given}: 2 of 3 lines have words or characters that the model does not know and reads as <unk>, 3 in all: "
        '"zebra" (2 times), "dog"'
    )
    ended = forks.qkv("translate", model, *GREEDY, "--input", given)
    assert ended.code == 0
    assert ended.stderr.splitlines().count(said) == 1
    told = forks.qkv("translate", model, *GREEDY, "--json", "--input", given).stdout.splitlines()
    assert [json.loads(line)["unknown"] for line in told] == [["zebra"], [], ["zebra", "dog"]]
    known = forks.qkv("translate", model, *GREEDY, "--input", written(scratch / "known", b"aa ab\n"))
    assert "<unk>" not in known.stderr


def test_forms(model: Path, lines: Path, straight: str, forks: Forks) -> None:
    """--scores, --nbest and --json tell the same."""
    scored = quiet(forks.qkv("translate", model, *GREEDY, "--scores", stdin=lines)).splitlines()
    assert [line.split("\t")[1] for line in scored] == straight.splitlines()
    told = [
        json.loads(line) for line in quiet(forks.qkv("translate", model, *TORCH, "--json", stdin=lines)).splitlines()
    ]
    keys = {"line", "text", "score", "tokens", "token_scores", "truncated", "src_tokens", "alternatives"}
    keys |= {"parts", "split_at", "unknown"}
    assert all(set(one) == keys for one in told)
    assert [one["line"] for one in told] == list(range(1, 61))
    arguments = ("translate", model, *TORCH, "--beam", 3, "--nbest", 3)
    table = [line.split("\t") for line in quiet(forks.qkv(*arguments, stdin=lines)).splitlines()]
    assert [(int(line), int(rank)) for line, rank, _, _ in table] == [(n, r) for n in range(1, 61) for r in (1, 2, 3)]
    whole = quiet(forks.qkv(*arguments, "--json", "--alignment", "weights", stdin=lines)).splitlines()
    for number, one in enumerate(map(json.loads, whole)):
        each = [one, *one["alternatives"]]
        assert [[f"{other['score']:.6f}", other["text"]] for other in each] == [
            row[2:] for row in table[3 * number : 3 * number + 3]
        ]
        for other in each:
            assert len(other["alignment"]) == len(other["tokens"])
            assert all(len(row) == len(one["src_tokens"]) for row in other["alignment"])
    linked = quiet(forks.qkv("translate", model, *TORCH, "--alignment", "pharaoh", stdin=lines)).splitlines()
    assert [line.split("\t")[0] for line in linked] == [one["text"] for one in told]
    for line, one in zip(linked, told, strict=True):
        links = [link.split("-") for link in line.split("\t")[1].split()]
        assert sorted(int(tgt) for _, tgt in links) == list(range(len(one["tokens"])))
        assert all(int(src) < len(one["src_tokens"]) - 1 for src, _ in links)
    drawn = quiet(forks.qkv("translate", model, *TORCH, "--alignment", "matrix", stdin=lines)).splitlines()
    assert drawn[0] == told[0]["text"]
    assert len(drawn) > 2 * len(linked)
    by_head = "--layer", 1, "--head", 2
    linked = quiet(forks.qkv("translate", model, *TORCH, "--alignment", "pharaoh", *by_head, stdin=lines)).splitlines()
    assert [line.split("\t")[0] for line in linked] == [one["text"] for one in told]
    unknown = forks.qkv("translate", model, *TORCH, "--alignment", "matrix", "--layer", 9, "--head", 0, stdin=lines)
    assert "the decoder has the layers 1 to" in refused(unknown, 2)
    assert "give --layer and --head together" in refused(forks.qkv("translate", model, "--layer", 1), 2)
    assert "add --alignment" in refused(forks.qkv("translate", model, *by_head), 2)
    assert "goes with --json" in refused(forks.qkv("translate", model, "--alignment", "weights"), 2)
    assert "leave out --nbest" in refused(forks.qkv("translate", model, "--alignment", "matrix", "--scores"), 2)


def test_an_output_is_one_line_whatever_is_in_it() -> None:
    from qkv.translate.output import Translation, plain, table, with_score

    wild = Translation("a\nb\r\nc\td\x0be", -1.0, [], [], [])
    assert plain(1, wild) == "a b  c d\x0be\n"
    assert with_score(1, wild).count("\n") == with_score(1, wild).count("\t") == 1
    assert table(1, wild).count("\t") == 3


def test_what_is_cut_is_told(model: Path, scratch: Path, forks: Forks) -> None:
    given = written(scratch / "in", b"aa\n" + b"aa ab ac ba bb\n" * 12 + b"ab\n")
    shortened = ("search.max_extra=50", "max_src_tokens=4", "split_long=false")
    ended = forks.qkv("translate", model, *GREEDY, *shortened, stdin=given)
    assert quiet(ended).count("\n") == 14
    assert "standard input:2: too long: only its first 3 tokens were translated" in ended.stderr
    assert ended.stderr.count("too long") == 10
    assert "12 lines in all were cut" in ended.stderr
    assert "standard input:1:" not in ended.stderr


def test_what_is_split_is_told(model: Path, scratch: Path, forks: Forks) -> None:
    given = written(scratch / "in", b"aa\n" + b"aa ab ac ba bb\n" * 12 + b"ab\n")
    arguments = ("translate", model, *GREEDY, "search.max_extra=50", "max_src_tokens=4")
    ended = forks.qkv(*arguments, stdin=given)
    assert quiet(ended).count("\n") == 14
    assert "standard input:2: too long: its 5 tokens were translated in 2 parts, split at spaces\n" in ended.stderr
    assert ended.stderr.count("too long") == 10
    assert "12 lines in all were translated in parts" in ended.stderr
    assert "standard input:1:" not in ended.stderr
    told = [json.loads(line) for line in quiet(forks.qkv(*arguments, "--json", stdin=given)).splitlines()]
    assert [(one["parts"], one["split_at"]) for one in told] == [(1, None), *[(2, "word")] * 12, (1, None)]


def test_settings_that_are_wrong(model: Path, forks: Forks) -> None:
    for arguments, words in (
        (["search.sise=3"], 'did you mean "size"?'),
        (["search=beem"], "beam"),
        (["batch_tokens=0"], "batch_tokens"),
        (["--beam", "2", "--nbest", "3"], "a beam of size 2 cannot give 3 hypotheses; add --beam 3"),
        (["--beam", "2", "search=beam", "--nbest", "3"], "cannot give 3 hypotheses"),
        (["--beam", "2", "search=greedy"], "--beam 2: the search kind greedy has no beam"),
        (["--beam", "2", "search.kind=sample"], "--beam 2: the search kind sample has no beam"),
        (["--beam", "2", "search=beem"], "beam"),
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
    for stdin in (invalid, None):
        arguments = [] if stdin else ["--input", invalid]
        sentence = refused(forks.qkv("translate", model, *GREEDY, *arguments, stdin=stdin), 1)
        assert sentence.startswith(f"{'standard input' if stdin else invalid}:2:4: not valid UTF-8")
        assert "--invalid-utf8 replace" in sentence
        replaced = forks.qkv("translate", model, *GREEDY, "--invalid-utf8", "replace", *arguments, stdin=stdin)
        assert quiet(replaced).count("\n") == 3
    binary = written(scratch / "binary", random.Random(0).randbytes(5000))
    assert "standard input:1:" in refused(forks.qkv("translate", model, *GREEDY, stdin=binary), 1)
    zeros = written(scratch / "zeros", bytes(100))
    assert "not valid UTF-8" in refused(forks.qkv("translate", model, *GREEDY, "--input", zeros), 1)
    assert "no such file" in refused(forks.qkv("translate", model, *GREEDY, "--input", scratch / "none"), 1)
    assert "cannot be read" in refused(forks.qkv("translate", model, *GREEDY, "--input", scratch), 1)
    os.mkfifo(scratch / "pipe")
    pipe = os.open(scratch / "pipe", os.O_RDWR)
    sentence = refused(forks.qkv("translate", model, *GREEDY, "--input", scratch / "pipe"), 1)
    os.close(pipe)
    assert sentence.startswith(f"{scratch / 'pipe'}: cannot be read (it is a pipe; ")


def write_manifest_again(folder: Path) -> None:
    (folder / MANIFEST).unlink()
    write_manifest(folder, {"what": "model"})


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
        next(transformer(sick.model).decoder.parameters())[0] = torch.nan
    folder = save_speaker(scratch / "sick")
    write_tensors(folder / "model.safetensors", named_weights(sick.model))
    write_manifest_again(folder)
    assert "not finite" in sentence(folder)
    other = save_speaker(scratch / "other")
    vocabulary = next((other / "tokenizer").rglob("vocabulary.json"))
    vocabulary.write_text(vocabulary.read_text().replace('"cc"', '"CC"'))
    write_manifest_again(other)
    assert "has another vocabulary than" in sentence(model, "--with", other, code=2)
    assert quiet(forks.qkv("translate", model, *GREEDY, "--with", model, stdin=lines)).count("\n") == 60


def test_prefixes(model: Path, lines: Path, scratch: Path, forks: Forks) -> None:
    prefixes = written(scratch / "prefixes", b"cc ba\n\n" * 30)
    out = quiet(forks.qkv("translate", model, *GREEDY, "--prefix-file", prefixes, stdin=lines))
    assert all(line.startswith("cc ba") for line in out.splitlines()[::2])
    unknown = written(scratch / "unknown", b"cc\n" * 20 + b"cc zz\n" * 40)
    sentence = refused(forks.qkv("translate", model, *GREEDY, "--prefix-file", unknown, stdin=lines), 2)
    assert 'the model does not know "zz"' in sentence
    assert lines.read_text().splitlines()[20] in sentence
    short = written(scratch / "short", b"cc ba\n")
    sentence = refused(forks.qkv("translate", model, *GREEDY, "--prefix-file", short, stdin=lines), 1)
    assert sentence == f"{short}: has only 1 lines, but standard input has more; give one for each"


def test_output_that_goes_nowhere(model: Path, lines: Path) -> None:
    """A reader that leaves, a full disk, closed streams: never a traceback."""
    greedy = " ".join(GREEDY)
    for command, code in (
        (f"for i in 1 2 3 4 5 6 7 8 9; do cat {lines}; done | {QKV} translate {model} {greedy} | head -1", 0),
        (f"{QKV} translate {model} {greedy} < {lines} > /dev/full", 1),
        (f"{QKV} translate {model} {greedy} < {lines} >&-", 1),
        (f"{QKV} translate {model} {greedy} <&-", 0),
        (f"{QKV} score {model} --src {lines} --tgt {lines} | sleep 0", 0),
    ):
        ended = in_shell(command)
        assert ended.returncode == code, (command, ended.stderr)
        told = [line for line in ended.stderr.splitlines() if line.startswith("qkv: ") or "xception" in line]
        assert len(told) == code
        if code:
            reason = ": No space left" if command.endswith("/dev/full") else " is closed"
            assert told[0].startswith(f"qkv: standard output{reason}")
        assert "Traceback" not in ended.stderr


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
    from qkv.export.ctranslate2 import export_ctranslate2
    from qkv.models.saved.folder import load_model

    assert Translator(model).decoder(DecodeOptions()).engine.name == "ctranslate2"
    assert Translator(model).decoder(DecodeOptions(prefixes=True)).engine.name == "torch"
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
