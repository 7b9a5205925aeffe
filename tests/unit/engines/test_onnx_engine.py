"""One pass by ONNX Runtime gives what our own decoding gives, and what it cannot do so is refused."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from qkv.core.errors import CorruptFolder, QkvError, UsageError
from qkv.engines import onnx_engine
from qkv.engines.base import DecodeRequest
from qkv.engines.onnx_engine import OnnxEngine, onnx_request_obstacles
from qkv.engines.torch_engine import TorchEngine
from qkv.export.onnx import as_graph, export_onnx
from qkv.export.onnx_canvas import onnx_canvases
from qkv.models.decoders import decoders
from qkv.models.heads.linear import output_matrix
from qkv.models.saved.folder import SavedModel, save_model
from qkv.search.base import Constraints, searches
from qkv.search.hypothesis import Hypothesis
from qkv.search.refinement.search import RefineConfig
from qkv.translate.texts import DecodeOptions
from qkv.translate.translator import Translator
from tests.support.exported import TIE, decided_model, random_sources
from tests.support.parallel import refining

Pair = tuple[TorchEngine, OnnxEngine]
ONE_PASS = RefineConfig(passes=1)
LEARNED = {"kind": "learned", "max_length": 40}
MODELS: list[dict[str, Any]] = [
    {"decoder": {"kind": "ctc"}, "residual": {"kind": "pre"}, "share_embeddings": "target", "tgt_words": 50},
    {"decoder": {"kind": "ctc", "upsample": 1.3}, "residual": {"kind": "pre"}, "feed_forward": {"kind": "swiglu"}},
    {"decoder": {"kind": "ctc"}, "share_embeddings": "none", "tgt_words": 57, "feed_forward": {"kind": "gelu"}},
    {"decoder": {"kind": "canvas"}, "end": 0.1},
    {"decoder": {"kind": "canvas", "inputs": "queries", "factor": 0.5, "extra": 0}, "share_layers": True},
    {"decoder": {"kind": "nat"}, "positions": LEARNED},
    {"decoder": {"kind": "nat", "inputs": "queries"}, "residual": {"kind": "pre"}, "share_embeddings": "target"},
    {"decoder": {"kind": "mask_predict"}, "encoder_layers": 3, "num_heads": 4, "seed": 4},
]


@pytest.fixture(scope="module")
def engines() -> Callable[..., Pair]:
    made: dict[str, Pair] = {}

    def get(**changes: Any) -> Pair:
        name = str(changes)
        if name not in made:
            made[name] = both(decided_model(**changes))
        return made[name]

    return get


def both(saved: SavedModel, int8: bool = False) -> Pair:
    return TorchEngine([saved.model]), OnnxEngine(as_graph(saved, int8), threads=2)


def request(count: int, search: RefineConfig = ONE_PASS, **changes: Any) -> DecodeRequest:
    return DecodeRequest(search, 1, [Constraints()] * count, **changes)


def assert_same(ours: Sequence[list[Hypothesis]], theirs: Sequence[list[Hypothesis]]) -> int:
    """The same outputs and scores; how many differ, all of them ties: what was chosen is as probable."""
    ties = 0
    for row, ([one], [two]) in enumerate(zip(ours, theirs, strict=True)):
        assert two.score == pytest.approx(one.score, abs=TIE, rel=1e-5), f"sentence {row}"
        if (one.tokens, one.ended) == (two.tokens, two.ended):
            assert two.token_scores == pytest.approx(one.token_scores, abs=TIE)
            assert one.passes == two.passes == 1
        else:
            ties += 1
    return ties


@pytest.mark.parametrize("changes", MODELS, ids=str)
def test_a_thousand_sentences_come_out_the_same(engines: Callable[..., Pair], changes: dict[str, Any]) -> None:
    ours, theirs = engines(**changes)
    assert ours.src_limit is None or ours.src_limit == theirs.src_limit
    sources = random_sources(1000, seed=5)
    together = [sources[first : first + 100] for first in range(0, len(sources), 100)]
    expected = [found for rows in together for found in ours.decode(rows, request(len(rows)))]
    found = [found for rows in together for found in theirs.decode(rows, request(len(rows)))]
    assert assert_same(expected, found) < 5
    assert len({tuple(own[0].tokens) for own in found}) > 50, "outputs must differ, or the test says little"
    few = sources if changes == MODELS[0] else sources[:100]
    alone = [theirs.decode([ids], request(1))[0] for ids in few]
    assert assert_same(found[: len(few)], alone) < 5


def test_every_kind_of_decoder_has_been_looked_at() -> None:
    """Those that it refuses are named here."""
    refused = {"autoregressive", "dag"}
    assert {changes["decoder"]["kind"] for changes in MODELS} == set(onnx_canvases) == set(decoders.names()) - refused
    assert onnx_request_obstacles(request(1), "dag") == []


def test_limits_cut_as_ours_do(engines: Callable[..., Pair]) -> None:
    sources = random_sources(60)
    for changes in MODELS:
        for search in (RefineConfig(passes=1, max_length=4), RefineConfig(passes=1, max_length=0)):
            ours, theirs = (engine.decode(sources, request(60, search)) for engine in engines(**changes))
            assert assert_same(ours, theirs) < 2
            assert max(len(own[0].tokens) for own in theirs) == search.max_length


def test_a_penalty_for_the_blank_counts_as_in_ours(engines: Callable[..., Pair]) -> None:
    ours, theirs = engines(decoder="ctc")
    given, found = random_sources(40), []
    for penalty in (0.0, 3.0, -20.0):
        asked = request(len(given), refining(passes=1, blank_penalty=penalty))
        found.append(theirs.decode(given, asked))
        assert_same(ours.decode(given, asked), found[-1])
    assert found[0] != found[2]


def test_int8_is_close() -> None:
    ours, theirs = both(decided_model(decoder={"kind": "ctc"}, d_model=64, d_ff=128), int8=True)
    sources = random_sources(100)
    pairs = list(zip(*(engine.decode(sources, request(100)) for engine in (ours, theirs)), strict=True))
    assert sum(own[0].tokens == other[0].tokens for own, other in pairs) > 50
    differences = [
        abs(own[0].score - other[0].score) / len(ids) / 2 for (own, other), ids in zip(pairs, sources, strict=True)
    ]
    assert 0 < sum(differences) / len(differences) < 0.12


def test_threads_do_not_disturb_each_other(engines: Callable[..., Pair]) -> None:
    _, theirs = engines(**MODELS[0])
    sources = random_sources(600)
    parts = [sources[first : first + 50] for first in range(0, 600, 50)]
    with ThreadPoolExecutor(4) as pool:
        at_once = list(pool.map(lambda part: theirs.decode(part, request(len(part))), parts))
    for found, part in zip(at_once, parts, strict=True):
        assert found == theirs.decode(part, request(len(part)))


@pytest.mark.parametrize(
    ("changes", "kind", "reason"),
    [
        ({"search": RefineConfig()}, "mask_predict", "it takes one pass: search.passes=1"),
        ({"search": RefineConfig(passes=2)}, "ctc", "it takes one pass: search.passes=1"),
        ({"search": RefineConfig(length_factor=1.1)}, "nat", "it takes no length or length_factor"),
        ({"search": RefineConfig(length=5)}, "ctc", "it takes no length or length_factor"),
        (
            {"search": refining(blank_penalty=1)},
            "nat",
            "search.blank_penalty is for models of the kind ctc, not nat; leave it out",
        ),
        ({"search": RefineConfig(length_beam=2)}, "nat", "it tries one length: search.length_beam=1"),
        ({"search": refining(beam=2)}, "ctc", "it takes no search.beam"),
        ({"nbest": 2}, "ctc", "one pass gives one output, not 2"),
        ({"attention": True}, "ctc", "it tells no alignment"),
        ({"constraints": [Constraints(prefix=[7])]}, "ctc", "it takes no prefix, forbidden or required words"),
    ],
    ids=str,
)
def test_what_it_cannot_do_is_named(changes: dict[str, Any], kind: str, reason: str) -> None:
    wanted = DecodeRequest(**{"search": RefineConfig(), "nbest": 1, "constraints": [Constraints()], **changes})
    assert onnx_request_obstacles(wanted, kind) == [reason]


def test_other_searches_are_refused_by_name(engines: Callable[..., Pair]) -> None:
    _, theirs = engines(**MODELS[0])
    for kind in set(searches.names()) - {"refine"}:
        wanted = DecodeRequest(searches[kind](), 1, [Constraints()])
        with pytest.raises(UsageError, match=f"this way: it has no search kind {kind}; use the engine torch"):
            theirs.decode(random_sources(1), wanted)


def test_auto_takes_it_for_a_model_that_writes_at_once_and_for_an_export(tmp_path: Path) -> None:
    saved = decided_model(decoder={"kind": "ctc"})
    lines = [saved.tokenizers.src.decode(ids[:-1]) for ids in random_sources(50)]
    expected = [one.text for one in Translator(saved, "torch").translate(lines)]
    save_model(tmp_path / "model", saved)
    export_onnx(saved, tmp_path / "fast")
    for model in (saved, tmp_path / "model", tmp_path / "fast"):
        for engine in ("auto", "onnxruntime"):
            translator = Translator(model, engine)
            assert [one.text for one in translator.translate(lines)] == expected
            assert translator.decoder(DecodeOptions()).engine.name == "onnxruntime"
    slower = Translator(saved, search=refining(beam=3))
    slower.translate(lines[:2])
    assert slower.decoder(DecodeOptions()).engine.name == "torch"
    for engine in ("torch", "ctranslate2"):
        with pytest.raises(UsageError, match="was exported for the engine onnxruntime"):
            Translator(tmp_path / "fast", engine)
    with pytest.raises(UsageError, match="the engine onnxruntime cannot do this: an autoregressive model is a loop"):
        Translator(decided_model(), "onnxruntime").translate(["w001"])
    with pytest.raises(UsageError, match="the engine onnxruntime takes no drafts"):
        Translator(saved, "onnxruntime", draft="jacobi")


def test_a_damaged_or_wrong_folder_is_refused(tmp_path: Path) -> None:
    saved = decided_model(decoder={"kind": "ctc"})
    save_model(tmp_path / "model", saved)
    with pytest.raises(CorruptFolder, match="was not exported for ONNX Runtime"):
        OnnxEngine.from_folder(tmp_path / "model")
    with pytest.raises(QkvError, match=r"ONNX Runtime cannot load the graph .*; export the model again"):
        OnnxEngine(b"no graph")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(onnx_engine, "FORMAT", "next")
        with pytest.raises(UsageError, match="exported by another version of qkv; export the model again"):
            OnnxEngine(as_graph(saved))


def test_a_model_that_says_nan() -> None:
    saved = decided_model(decoder={"kind": "nat"})
    with torch.no_grad():
        output_matrix(saved.model.head).fill_(torch.nan)
    with pytest.raises(QkvError, match="not a number"):
        both(saved)[1].decode(random_sources(2), request(2))


def test_work_is_stopped_by_raising(engines: Callable[..., Pair]) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engines(**MODELS[0])[1].decode(random_sources(2), request(2, after_step=stop))
