"""The fast twin of a model that fills canvases reads and fills as the model itself, for every kind of part."""

from typing import Any

import pytest
import torch
from torch import Tensor

from qkv.engines.base import DecodeRequest
from qkv.engines.torch_engine import TorchEngine
from qkv.inference.whole import WholeEncoder, fused
from qkv.models.parallel.base import open_canvas
from qkv.search.base import Constraints
from qkv.search.refinement.search import RefineConfig, RefineSearch
from qkv.text import SPECIAL
from tests.support.attentions import CAUSAL, ENCODER, FULL
from tests.support.parallel import PARALLEL, parallel_model
from tests.support.parts import PARTS as EACH_PART
from tests.support.parts import sources
from tests.support.small import VOCAB
from tests.support.tables import task_of

LENGTHS = [7, 3, 0]
"""Of the sources, without END."""
CANVASES = torch.tensor([9, 4, 1])
EVERYWHERE = [
    {f"{place}_attention": setting, "num_heads": 4}
    for place, settings in (("encoder", ENCODER), ("decoder", CAUSAL), ("cross", FULL))
    for setting in settings
]
PARTS: list[dict[str, Any]] = [*EACH_PART, *EVERYWHERE, {"share_layers": True}, {"feed_forward_chunk": 2}]


def canvas_of(lengths: Tensor, known: bool) -> Tensor:
    """Open, or with some tokens on it."""
    canvas = open_canvas(lengths)
    drawn = torch.randint(5, VOCAB, canvas.shape, generator=torch.Generator().manual_seed(3))
    return torch.where((canvas == SPECIAL.mask) & (drawn % 2 == 0), drawn, canvas) if known else canvas


@torch.no_grad()
def check(model: Any, lengths: list[int], canvas: Tensor) -> None:
    """In double precision, what is read and what is filled."""
    model = model.double()
    src, keep = sources(lengths)
    fast = fused(model)
    wanted, found = model.read(src, keep), fast.read(src, keep)
    torch.testing.assert_close(found.memory[keep], wanted.memory[keep], atol=1e-10, rtol=0)
    inside = canvas != SPECIAL.pad
    torch.testing.assert_close(fast.fill(canvas, found)[inside], model.fill(canvas, wanted)[inside], atol=1e-10, rtol=0)


@pytest.mark.parametrize("parts", PARTS, ids=str)
def test_it_equals_the_model_for_every_part(parts: dict[str, Any]) -> None:
    check(parallel_model("ctc", **parts), LENGTHS, canvas_of(CANVASES, known=True))


@pytest.mark.parametrize("parts", [{}, {"positions": "rope"}, {"positions": "t5"}, {"stack": "adaptive"}], ids=str)
def test_it_equals_the_model_without_padding(parts: dict[str, Any]) -> None:
    check(parallel_model("mask_predict", **parts), [5], canvas_of(CANVASES[:1], known=False))


@pytest.mark.parametrize("decoder", [*PARALLEL, {"kind": "nat", "inputs": "queries"}], ids=str)
def test_it_equals_the_model_for_every_decoder(decoder: Any) -> None:
    check(parallel_model(decoder), LENGTHS, canvas_of(CANVASES, known=False))


def test_the_model_itself_stays_as_it_is() -> None:
    model = parallel_model("ctc").train()
    fast = fused(model)
    assert type(fast) is type(model)
    assert model.training
    assert not fast.training
    assert not isinstance(model.encoder, WholeEncoder)
    with torch.no_grad():
        for parameter in fast.parameters():
            parameter.zero_()
    assert all(bool(parameter.any()) for parameter in model.parameters())


@pytest.mark.parametrize("kind", PARALLEL)
def test_the_engine_says_what_the_model_said_when_it_was_made(kind: str) -> None:
    model, search = parallel_model(kind, seed=4), RefineConfig(passes=2)
    ids = [[5, 9, 8, 11, SPECIAL.eos], [7, SPECIAL.eos]]
    task = task_of(ids, search)
    wanted = [best for best, *_ in RefineSearch(passes=2).fill(model, task)]
    engine, request = TorchEngine([model]), DecodeRequest(search, 1, [Constraints()] * 2)
    for _ in range(2):
        for (best, *_), own in zip(engine.decode(ids, request), wanted, strict=True):
            assert (best.tokens, best.ended, best.passes) == (own.tokens, own.ended, own.passes)
            assert best.token_scores == pytest.approx(own.token_scores, abs=1e-5)
            assert best.score == pytest.approx(own.score, abs=1e-5)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.zero_()
    assert RefineSearch(passes=2).fill(model, task) != [[own] for own in wanted]
