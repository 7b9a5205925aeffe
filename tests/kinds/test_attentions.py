"""Every kind of attention, score and weighing: equal to its definition, in a model, over a cache, without leaks."""

from typing import Any

import pytest
import torch
from torch import Tensor

from qkv.functional.masks import Predicate, causal
from qkv.inference.transformer import TransformerInference
from qkv.layers.attention import Attention, LongformerAttention, attentions
from qkv.layers.attention.context import AttentionContext
from qkv.layers.positions import positions
from qkv.models.transformer.config import TransformerConfig
from qkv.models.transformer.model import Transformer
from qkv.search.models import ModelSteps, PrefixSteps
from tests.support.attentions import (
    CAUSAL,
    CROSS,
    ENCODER,
    FOLLOWING,
    FULL,
    GLOBAL,
    HEADS,
    WIDTH,
    WINDOWS,
    Setting,
    build,
    definition,
    everywhere,
    ragged,
)
from tests.support.parts import random_tokens, sources
from tests.support.small import VOCAB, batch_of, decode, small_model


def test_every_kind_is_swept() -> None:
    assert {setting["kind"] for setting in [*ENCODER, *FOLLOWING]} == set(attentions.names())


def same_with_gradients(module: Attention, x: Tensor, context: AttentionContext) -> None:
    found, wanted = module(x, context), definition(module, x, context)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-10)
    upstream = torch.randn_like(found)
    leaves = [x, *module.parameters()]
    for ours, theirs in zip(
        *(torch.autograd.grad(out, leaves, upstream, allow_unused=True) for out in (found, wanted)), strict=True
    ):
        zero = torch.zeros(())
        torch.testing.assert_close(*(zero if g is None else g for g in (ours, theirs)), rtol=0, atol=1e-9)


@pytest.mark.parametrize("predicate", [None, causal])
@pytest.mark.parametrize("setting", CAUSAL, ids=str)
def test_equals_its_definition(setting: Setting, predicate: Predicate | None) -> None:
    module, pos = build(setting), torch.arange(21)
    x = torch.randn(2, 21, WIDTH, dtype=torch.float64, requires_grad=True)
    same_with_gradients(module, x, AttentionContext(pos, pos, predicate, ragged([21, 9])))


@pytest.mark.parametrize("scheme", positions.names())
@pytest.mark.parametrize("setting", [*WINDOWS, *GLOBAL], ids=str)
def test_windows_go_with_every_scheme_of_positions(setting: Setting, scheme: str) -> None:
    """Also with positions that are drawn anew for each sentence, and with ragged numbers of global tokens."""
    module, pos = build(setting, scheme), torch.arange(21)
    drawn = torch.stack([torch.randperm(60)[:21].sort().values for _ in range(2)])
    for position_ids in (None, drawn):
        x = torch.randn(2, 21, WIDTH, dtype=torch.float64, requires_grad=True)
        same_with_gradients(module, x, AttentionContext(pos, pos, None, ragged([21, 5]), drawn=position_ids))


@pytest.mark.parametrize("setting", GLOBAL, ids=str)
def test_a_wide_window_is_full_attention(setting: Setting) -> None:
    """So are global tokens everywhere: the projections of both start as copies."""
    x, pos = torch.randn(2, 9, WIDTH, dtype=torch.float64), torch.arange(9)
    torch.manual_seed(1)
    narrow, wide, everywhere, full = (
        TransformerConfig(d_model=WIDTH, num_heads=HEADS, encoder_attention=kind).encoder_attention.build(
            WIDTH, HEADS, 0.0, None, 0
        )
        for kind in (
            setting,
            {**setting, "window": 18, "dilation": 1},
            {**setting, "global_positions": list(range(9))},
            {"kind": "full"},
        )
    )
    for module in (narrow, wide, everywhere):
        module.load_state_dict(full.state_dict(), strict=False)
        assert isinstance(module, LongformerAttention)
        module.reset_global()
    wanted = full.double()(x, AttentionContext(pos, pos))
    for module in (wide, everywhere):
        torch.testing.assert_close(module.double()(x, AttentionContext(pos, pos)), wanted, rtol=0, atol=1e-10)
    assert not torch.allclose(narrow.double()(x, AttentionContext(pos, pos)), wanted, rtol=0, atol=1e-3)


def test_without_global_tokens_their_projections_learn_nothing() -> None:
    module, pos = build(GLOBAL[0]), torch.arange(5) + 3
    module(torch.randn(2, 5, WIDTH, dtype=torch.float64), AttentionContext(pos, pos)).sum().backward()
    for name, parameter in module.named_parameters():
        assert (parameter.grad is None) == ("_global" in name), name


@pytest.mark.parametrize("setting", [WINDOWS[0], WINDOWS[1], GLOBAL[0]], ids=str)
def test_dropout_is_on_the_weights_and_only_in_training(setting: Setting) -> None:
    module, pos = build(setting, dropout=0.5), torch.arange(9)
    x = torch.randn(1, 9, WIDTH, dtype=torch.float64).expand(3000, 9, WIDTH)
    with torch.no_grad():
        plain = module(x[:1], AttentionContext(pos, pos))
        noisy = module.train()(x, AttentionContext(pos, pos))
    assert not torch.equal(noisy[0], noisy[1])
    torch.testing.assert_close(noisy.mean(0), plain[0], rtol=0, atol=0.1)


def check_cached_equals_full(model: Transformer, steps: int) -> None:
    """Decoded vectors of one step after the other, against one parallel pass of the model itself."""
    src, keep = sources([7, 3, 0])
    tokens = torch.stack(random_tokens(3, steps), dim=1)
    fast = TransformerInference(model)
    with torch.no_grad():
        wanted = model.states(src, keep, tokens)
        state = fast.start(src, keep)
        for at in range(steps):
            found, state = fast.extend(tokens[:, at : at + 1], state)
            torch.testing.assert_close(found.states[:, 0], wanted[:, at], atol=1e-5, rtol=0)


@pytest.mark.parametrize("setting", [*ENCODER[1:], *FOLLOWING], ids=str)
def test_cached_equals_full(setting: Setting) -> None:
    check_cached_equals_full(small_model(**everywhere(setting)).eval(), 20)


@pytest.mark.parametrize("scheme", ["alibi", "rope", "shaw", "t5"])
@pytest.mark.parametrize("setting", [FULL[-1], *WINDOWS], ids=str)
def test_cached_equals_full_with_positions_in_attention(setting: Setting, scheme: str) -> None:
    check_cached_equals_full(small_model(**everywhere(setting), positions=scheme).eval(), 12)


@pytest.mark.parametrize("setting", CROSS[1:], ids=str)
def test_beams_attend_to_their_own_source_and_its_weights_are_told(setting: Setting) -> None:
    model = small_model(**everywhere(setting)).eval()
    src, keep = sources([7, 3])
    steps = ModelSteps(model, attention=True)
    tokens = torch.tensor([6, 7, 8, 9])
    output, _ = steps.step(tokens, steps.start(src, keep, beams=2))
    alone = PrefixSteps(model).step(tokens, PrefixSteps(model).start(src, keep, beams=2))[0]
    torch.testing.assert_close(output.log_probs, alone.log_probs, atol=1e-5, rtol=0)
    assert output.attention is not None
    torch.testing.assert_close(output.attention.sum(-1), torch.ones(4))
    assert not output.attention[~keep.repeat_interleave(2, 0)].any()


@pytest.mark.parametrize("setting", [*ENCODER[1:], *FOLLOWING], ids=str)
def test_padding_and_neighbours_change_nothing(setting: Setting) -> None:
    model = small_model(**everywhere(setting)).eval()
    batch = batch_of([(9, 8), (2, 3), (5, 12)])
    counts = batch.tgt_weight > 0
    together = decode(model, batch.src, batch.src_keep, batch.tgt_in)
    for row in range(3):
        src, keep = batch.src[row : row + 1, batch.src_keep[row]], batch.src_keep[row : row + 1, batch.src_keep[row]]
        alone = decode(model, src, keep, batch.tgt_in[row : row + 1, counts[row]])
        torch.testing.assert_close(together[row : row + 1, counts[row]], alone, atol=1e-5, rtol=0)
    noise = torch.randint(5, VOCAB, batch.src.shape)
    littered = decode(model, torch.where(batch.src_keep, batch.src, noise), batch.src_keep, batch.tgt_in)
    torch.testing.assert_close(littered[counts], together[counts], atol=1e-5, rtol=0)


def jacobian(model: Transformer, length: int) -> Tensor:
    """[T, T], how strongly decoded t depends on embedded s."""
    batch, seen = batch_of([(4, length - 1)]), []
    hook = model.tgt_embedder.register_forward_hook(lambda module, inputs, output: seen.append(output))
    decoded = model.states(batch.src, batch.src_keep, batch.tgt_in)
    hook.remove()
    direction = torch.randn(decoded.shape[-1], generator=torch.Generator().manual_seed(0))
    rows = [torch.autograd.grad(decoded[0, t] @ direction, seen[0], retain_graph=True)[0][0] for t in range(length)]
    return torch.stack(rows).abs().amax(dim=-1)


@pytest.mark.parametrize("setting", CAUSAL[1:], ids=str)
def test_no_gradient_flows_back_from_the_future(setting: Setting) -> None:
    found = jacobian(small_model(**everywhere(setting)), 11)
    assert not found.triu(1).any()
    assert bool((found.diagonal() > 0).all())


def test_two_layers_of_a_window_reach_twice_as_far_and_no_farther() -> None:
    found = jacobian(small_model(decoder_attention=WINDOWS[0]), 15)
    distance = torch.arange(15)[:, None] - torch.arange(15)
    assert torch.equal(found > 0, (distance >= 0) & (distance <= 2 * WINDOWS[0]["left"]))


def test_the_parameters_of_full_attention_have_the_names_that_saved_models_use() -> None:
    names = {name for name, _ in small_model().named_parameters() if name.startswith("encoder.layers.0.attention.")}
    parts = ("query", "key", "value", "output")
    assert names == {f"encoder.layers.0.attention.{part}.{what}" for part in parts for what in ("weight", "bias")}


def test_shared_keys_and_values_are_fewer_also_in_the_cache() -> None:
    model = small_model(num_heads=4, decoder_attention={"kind": "full", "kv_heads": 2})
    steps = ModelSteps(model.eval())
    state: Any = steps.start(*sources([4]))
    # Keys and values of two heads each.
    assert state.cache.tensor.shape[2] == 2 * 2
    assert model.get_parameter("decoder.layers.0.attention.key.weight").shape == (8, 16)


@pytest.mark.parametrize(
    ("place", "setting", "words"),
    [
        ("decoder_attention", GLOBAL[0], "show the future; leave global_positions and global_tokens empty"),
        ("cross_attention", WINDOWS[0], "cross_attention cannot be truncated: a window needs .* use full"),
        ("cross_attention", WINDOWS[2], "cross_attention cannot be longformer"),
        ("encoder_attention", {"kind": "full", "kv_heads": 3}, r"must divide num_heads \(4\): 1, 2, 4"),
        ("encoder_attention", {"kind": "longformer", "window": 3}, "no two halves; use 2 or 4"),
        ("encoder_attention", {"kind": "longformer", "window": [2, 2, 2]}, "3 numbers for 2 layers of their own"),
        ("encoder_attention", {"kind": "longformer", "window": 2, "global_positions": [-1]}, "count from 0"),
        ("encoder_attention", {"kind": "truncated"}, "left"),
        *(
            (f"{side}_attention", setting, f"{side}_attention cannot be .* use it as cross_attention, and full here")
            for side in ("encoder", "decoder")
            for setting in FOLLOWING
        ),
    ],
)
def test_what_cannot_work_is_refused_when_it_is_read(place: str, setting: Setting, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        TransformerConfig(d_model=WIDTH, num_heads=HEADS, encoder_layers=2, decoder_layers=2, **{place: setting})


def test_layers_that_share_their_weights_share_one_window() -> None:
    with pytest.raises(ValueError, match="2 numbers for 1 layers"):
        TransformerConfig(
            encoder_layers=2, share_layers=True, encoder_attention={"kind": "longformer", "window": [2, 4]}
        )
