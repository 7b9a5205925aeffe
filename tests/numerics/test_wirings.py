"""What the decoder's layers attend to: each wiring against its equation and against the others."""

from typing import Any

import pytest
import torch
from torch import Tensor

from qkv.functional.masks import causal
from qkv.layers.attention.context import AttentionContext
from qkv.models.transformer.build import build_model
from qkv.models.transformer.config import TransformerConfig
from qkv.models.transformer.model import Transformer
from qkv.models.transformer.wirings import wirings
from qkv.search.models import ModelSteps, PrefixSteps
from qkv.search.protocol import StepFunction
from qkv.text import SPECIAL
from tests.support.small import VOCAB, batch_of, decode, small_config, small_model, stir

ENCODER_LAYERS, DECODER_LAYERS = 3, 2
WIRED = {"last": {3}, "layerwise": {2, 3}, "mix": {0, 1, 2, 3}, "dense": {0, 1, 2, 3}, "concatenated": {0, 1, 2, 3}}
FAR = 1e4

every_wiring = pytest.mark.parametrize("kind", wirings.names())
every_norm = pytest.mark.parametrize("residual", ["post", "pre"])


def model_of(wiring: str, **changes: Any) -> Transformer:
    sizes = {"encoder_layers": ENCODER_LAYERS, "decoder_layers": DECODER_LAYERS}
    return small_model(4, wiring=wiring, **{**sizes, **changes}).double().eval()


def same_but(model: Transformer, wiring: str, **changes: Any) -> Transformer:
    """Another wiring around the same encoder and decoder."""
    other = model_of(wiring, **changes)
    own = {name: tensor for name, tensor in model.state_dict().items() if "wiring" not in name}
    other.load_state_dict(own, strict=False)
    return other


def decoded(model: Transformer) -> Tensor:
    batch = batch_of([(5, 4), (2, 6)])
    return decode(model, batch.src, batch.src_keep, batch.tgt_in)


def point(logits: Tensor, layers: list[int]) -> None:
    """Each decoder layer looks at one encoder layer only."""
    with torch.no_grad():
        logits.fill_(-FAR)
        for row, layer in zip(logits, layers, strict=True):
            row[layer] = FAR


@every_norm
def test_a_mix_of_one_layer_is_last_or_layerwise(residual: str) -> None:
    mix = model_of("mix", residual=residual)
    wiring: Any = mix.encoder.wiring
    point(wiring.logits, [3, 3])
    torch.testing.assert_close(decoded(mix), decoded(same_but(mix, "last", residual=residual)), atol=1e-10, rtol=0)
    point(wiring.logits, [2, 3])
    layerwise = same_but(mix, "layerwise", residual=residual)
    layerwise_wiring: Any = layerwise.encoder.wiring
    layerwise_wiring.norms["2"].load_state_dict(wiring.state_norms.norms[2].state_dict())
    torch.testing.assert_close(decoded(mix), decoded(layerwise), atol=1e-10, rtol=0)
    assert not torch.allclose(decoded(mix), decoded(same_but(mix, "last", residual=residual)), atol=1e-3)


@every_norm
def test_a_mix_starts_as_the_mean(residual: str) -> None:
    wiring: Any = build_model(small_config(wiring="mix", encoder_layers=1, residual=residual), 9, 9, 0).encoder.wiring
    states = [torch.randn(1, 2, 16), torch.randn(1, 2, 16)]
    mean = (torch.nn.functional.layer_norm(states[0], (16,)) + states[1]) / 2
    for memory in wiring.memories(wiring.expose(states)):
        torch.testing.assert_close(memory, mean)


@every_norm
def test_dense_starts_as_last_and_does_not_stay_so(residual: str) -> None:
    torch.manual_seed(0)
    sizes = {"encoder_layers": ENCODER_LAYERS, "residual": residual}
    dense = build_model(small_config(wiring="dense", **sizes), VOCAB, VOCAB, SPECIAL.pad).double().eval()
    torch.testing.assert_close(decoded(dense), decoded(same_but(dense, "last", residual=residual)), atol=1e-10, rtol=0)
    stir(dense.encoder.wiring)
    assert not torch.allclose(decoded(dense), decoded(same_but(dense, "last", residual=residual)), atol=1e-3)


def test_dense_is_a_matrix_on_all_states_side_by_side() -> None:
    wiring: Any = model_of("dense").encoder.wiring
    states = [torch.randn(1, 2, 16).double() for _ in range(4)]
    first = torch.nn.functional.layer_norm(states[0], (16,), *wiring.state_norms.norms[0].parameters())
    joined = torch.cat([first, *states[1:]], dim=-1)
    for number, memory in enumerate(wiring.memories(wiring.expose(states))):
        rows = slice(16 * number, 16 * (number + 1))
        torch.testing.assert_close(memory, joined @ wiring.linear.weight[rows].T + wiring.linear.bias[rows])


def test_concatenated_places_stand_layer_by_layer_each_with_its_embedding() -> None:
    model = model_of("concatenated")
    wiring: Any = model.encoder.wiring
    states = [torch.randn(2, 3, 16).double() for _ in range(4)]
    (memory, _) = wiring.memories(wiring.expose(states))
    for layer in (1, 2, 3):
        wanted = states[layer] + wiring.layer_embedding[layer]
        torch.testing.assert_close(memory[:, 3 * layer : 3 * layer + 3], wanted)
    keep = torch.tensor([[True, True, False], [True, False, False]])
    assert torch.equal(wiring.spread(keep), torch.cat([keep] * 4, dim=1))
    weights = torch.rand(5, 12)
    torch.testing.assert_close(wiring.fold(weights), sum(weights.chunk(4, dim=-1)))


@every_norm
@every_wiring
def test_gradients_reach_exactly_the_wired_layers(kind: str, residual: str) -> None:
    """From the decoder through its attention to the source, with the encoder's states as leaves."""
    model = model_of(kind, residual=residual)
    states = [torch.randn(1, 3, 16).double().requires_grad_() for _ in range(ENCODER_LAYERS + 1)]
    memory = model.encoder.wiring.expose(states)
    pos = torch.arange(2)
    cross_context = AttentionContext(pos, torch.arange(3), keep=torch.ones(1, 3, dtype=torch.bool))
    x = torch.randn(1, 2, 16).double()
    model.decoder(x, AttentionContext(pos, pos, predicate=causal), memory, cross_context).pow(3).sum().backward()
    reached = {number for number, state in enumerate(states) if state.grad is not None and bool(state.grad.any())}
    assert reached == WIRED[kind]


@pytest.mark.parametrize(
    ("encoder_layers", "decoder_layers", "wired"),
    [(6, 6, [1, 2, 3, 4, 5, 6]), (3, 2, [2, 3]), (2, 5, [1, 1, 2, 2, 2]), (4, 1, [4])],
)
def test_layerwise_keeps_to_the_same_share_of_the_depth(
    encoder_layers: int, decoder_layers: int, wired: list[int]
) -> None:
    model = small_model(wiring="layerwise", encoder_layers=encoder_layers, decoder_layers=decoder_layers)
    wiring: Any = model.encoder.wiring
    assert wiring.wired == wired
    states = [torch.full((1, 2, 16), float(number)) for number in range(encoder_layers + 1)]
    assert [int(memory[0, 0, 0]) for memory in wiring.memories(wiring.expose(states))] == wired


@every_wiring
def test_padding_and_its_content_change_nothing(kind: str) -> None:
    model = model_of(kind)
    batch = batch_of([(5, 4), (2, 6)])
    wider = torch.nn.functional.pad(batch.src, (0, 3), value=9)
    keep = torch.nn.functional.pad(batch.src_keep, (0, 3), value=False)
    short = decode(model, batch.src, batch.src_keep, batch.tgt_in)
    torch.testing.assert_close(decode(model, wider, keep, batch.tgt_in), short, atol=1e-10, rtol=0)
    alone = decode(model, batch.src[1:, :3], batch.src_keep[1:, :3], batch.tgt_in[1:])
    torch.testing.assert_close(alone, short[1:], atol=1e-10, rtol=0)


@pytest.mark.parametrize("changes", [*({"wiring": kind} for kind in wirings.names()), {"stack": "universal"}], ids=str)
def test_cached_steps_follow_beams_and_give_alignments_over_the_source(changes: dict[str, Any]) -> None:
    """Two beams a sentence; the first sentence leaves and the beams of the others change places."""
    model = small_model(5, encoder_layers=ENCODER_LAYERS, **changes).eval()
    batch = batch_of([(7, 1), (3, 1), (5, 1)])
    first, second = (torch.randint(5, VOCAB, (6,)) for _ in range(2))
    rows, kept = torch.tensor([3, 3, 5, 4]), torch.tensor([1, 2])
    outputs = []
    for steps in list[StepFunction]([ModelSteps(model, attention=True), PrefixSteps(model)]):
        _, state = steps.step(first, steps.start(batch.src, batch.src_keep, beams=2))
        output, _ = steps.step(second[:4], state.reorder(rows, kept))
        outputs.append(output)
    torch.testing.assert_close(outputs[0].log_probs, outputs[1].log_probs, atol=1e-5, rtol=0)
    attention = outputs[0].attention
    assert attention is not None
    torch.testing.assert_close(attention.sum(-1), torch.ones(4))
    assert torch.equal(attention > 0, batch.src_keep[kept].repeat_interleave(2, 0))


def test_a_wiring_that_needs_what_a_stack_has_not_is_refused() -> None:
    with pytest.raises(ValueError, match=r"wiring mix needs one state after each layer.*adaptive.*use wiring last"):
        TransformerConfig(wiring="mix", stack="adaptive")
    assert TransformerConfig(wiring="mix", stack="universal").wiring.kind == "mix"
