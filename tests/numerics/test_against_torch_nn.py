"""Our modules against PyTorch's own with the same weights: outputs, losses and gradients."""

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.core.errors import ConfigError
from qkv.data.batch import Batch
from qkv.functional.losses import uniform
from qkv.functional.masks import causal
from qkv.layers.attention import MultiHeadAttention
from qkv.layers.attention.context import AttentionContext
from qkv.models.heads.base import NO_CONTEXT
from qkv.models.heads.linear import output_matrix
from qkv.models.transformer.config import TransformerConfig
from qkv.models.transformer.model import Transformer
from qkv.text import SPECIAL
from tests.support.small import VOCAB, batch_of, gradient_of, small_model, stir

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}
types = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
WIDTH, HEADS = 16, 4
Pairs = Iterator[tuple[Tensor, Tensor]]
"""(a tensor of ours, the same of PyTorch's)"""


def projections(ours: MultiHeadAttention) -> tuple[nn.Linear, nn.Linear, nn.Linear]:
    return ours.query, ours.key, ours.value


def attention_pairs(ours: Any, theirs: Any) -> Pairs:
    """PyTorch keeps W_q, W_k, W_v as one matrix; a list of views of it compares and copies alike."""
    weights, biases = theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3)
    for linear, weight, bias in zip(projections(ours), weights, biases, strict=True):
        yield linear.weight, weight
        yield linear.bias, bias
    yield ours.output.weight, theirs.out_proj.weight
    yield ours.output.bias, theirs.out_proj.bias


def attention_gradients(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> Pairs:
    for name in ("weight", "bias"):
        found = torch.cat([gradient_of(getattr(linear, name)) for linear in projections(ours)])
        yield found, gradient_of(getattr(theirs, f"in_proj_{name}"))
    yield from gradients(plain_pairs(ours.output, theirs.out_proj))


def gradients(pairs: Pairs) -> Pairs:
    return ((gradient_of(ours), gradient_of(theirs)) for ours, theirs in pairs)


def plain_pairs(ours: Any, theirs: Any) -> Pairs:
    """Weight and bias of a linear layer or a norm."""
    yield ours.weight, theirs.weight
    yield ours.bias, theirs.bias


def torch_attentions(layer: nn.Module) -> list[nn.MultiheadAttention]:
    return [module for module in layer.children() if isinstance(module, nn.MultiheadAttention)]


def our_attentions(layer: nn.Module) -> list[MultiHeadAttention]:
    names = ["attention", "cross_attention"] if hasattr(layer, "cross_attention") else ["attention"]
    return [getattr(layer, name) for name in names]


def layer_pairs(ours: Any, theirs: Any) -> Pairs:
    """What is not attention: the feed-forward network and the norms, in the order of the sublayers."""
    yield from plain_pairs(ours.feed_forward.inner, theirs.linear1)
    yield from plain_pairs(ours.feed_forward.outer, theirs.linear2)
    cross = [ours.cross_residual] if hasattr(ours, "cross_residual") else []
    residuals = [ours.attention_residual, *cross, ours.feed_forward_residual]
    for number, residual in enumerate(residuals, 1):
        yield from plain_pairs(residual.norm, getattr(theirs, f"norm{number}"))


def stacks(ours: Transformer, theirs: nn.Transformer) -> list[tuple[Any, Any]]:
    return [(ours.encoder, theirs.encoder), (ours.decoder, theirs.decoder)]


@torch.no_grad()
def torch_twin(ours: Transformer, activation: str, pre_norm: bool) -> nn.Transformer:
    """nn.Transformer with our weights. It ends both stacks with a norm: right for pre-norm, none for post-norm."""
    sizes: dict[str, Any] = {"dim_feedforward": 24, "dropout": 0.0, "activation": activation, "norm_first": pre_norm}
    encoder_layer = nn.TransformerEncoderLayer(WIDTH, HEADS, batch_first=True, **sizes)
    decoder_layer = nn.TransformerDecoderLayer(WIDTH, HEADS, batch_first=True, **sizes)
    norms = [nn.LayerNorm(WIDTH) if pre_norm else None for _ in range(2)]
    theirs = nn.Transformer(
        WIDTH,
        HEADS,
        batch_first=True,
        custom_encoder=nn.TransformerEncoder(encoder_layer, 2, norms[0], enable_nested_tensor=False),
        custom_decoder=nn.TransformerDecoder(decoder_layer, 3, norms[1]),
    ).to(output_matrix(ours.head).dtype)
    for our_stack, their_stack in stacks(ours, theirs):
        for our_layer, their_layer in zip(our_stack.layers, their_stack.layers, strict=True):
            pairs = list(layer_pairs(our_layer, their_layer))
            for attention, twin in zip(our_attentions(our_layer), torch_attentions(their_layer), strict=True):
                pairs += attention_pairs(attention, twin)
            for mine, other in pairs:
                other.copy_(mine)
        if pre_norm:
            for mine, other in plain_pairs(our_stack.final, their_stack.norm):
                other.copy_(mine)
    return theirs


def gradient_pairs(ours: Transformer, theirs: nn.Transformer, pre_norm: bool) -> Pairs:
    for our_stack, their_stack in stacks(ours, theirs):
        for our_layer, their_layer in zip(our_stack.layers, their_stack.layers, strict=True):
            yield from gradients(layer_pairs(our_layer, their_layer))
            for mine, other in zip(our_attentions(our_layer), torch_attentions(their_layer), strict=True):
                yield from attention_gradients(mine, other)
        if pre_norm:
            yield from gradients(plain_pairs(our_stack.final, their_stack.norm))


def waves(length: int) -> Tensor:
    """The paper's positions, number by number."""
    rows = [
        [(math.sin, math.cos)[c % 2](p / 10000 ** ((c - c % 2) / WIDTH)) for c in range(WIDTH)] for p in range(length)
    ]
    return torch.tensor(rows, dtype=torch.float64)


def torch_embed(ids: Tensor, matrix: Tensor) -> Tensor:
    embedded = F.embedding(ids, matrix, padding_idx=SPECIAL.pad) * math.sqrt(WIDTH)
    return embedded + waves(ids.shape[1]).to(matrix.dtype)


def torch_forward(theirs: nn.Transformer, batch: Batch, matrix: Tensor) -> Tensor:
    """PyTorch's masks say True where attention is forbidden."""
    length = batch.tgt_in.shape[1]
    later = torch.ones(length, length, dtype=torch.bool).triu(1)
    decoded: Tensor = theirs(
        torch_embed(batch.src, matrix),
        torch_embed(batch.tgt_in, matrix),
        tgt_mask=later,
        src_key_padding_mask=~batch.src_keep,
        memory_key_padding_mask=~batch.src_keep,
    )
    return decoded


def close(ours: Tensor, theirs: Tensor, dtype: torch.dtype) -> None:
    torch.testing.assert_close(ours, theirs.to(ours.dtype), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@types
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("residual", ["post", "pre"])
@pytest.mark.parametrize("longest", [7, 12, 40])
def test_the_model_is_torch_nn_transformer(dtype: torch.dtype, activation: str, residual: str, longest: int) -> None:
    """Decoded vectors, log-probabilities, smoothed loss and all gradients, with ragged sources; how long they are
    decides which kernel computes the attention."""
    pre_norm = residual == "pre"
    ours = small_model(
        1, num_heads=HEADS, decoder_layers=3, residual=residual, feed_forward=activation, share_embeddings="all"
    ).to(dtype)
    theirs = torch_twin(ours, activation, pre_norm)
    matrix = output_matrix(ours.head).detach().clone().requires_grad_()
    batch = batch_of([(longest, 3), (2, 6), (5, longest)])

    decoded, expected = ours.states(batch.src, batch.src_keep, batch.tgt_in), torch_forward(theirs, batch, matrix)
    close(decoded, expected, dtype)
    close(ours.head.log_probs(decoded), F.log_softmax(expected @ matrix.T, dim=-1), dtype)

    counts = batch.tgt_weight > 0
    targets, weights = batch.tgt_out[counts], batch.tgt_weight[counts].to(dtype)
    loss, _ = ours.head.loss(decoded[counts], NO_CONTEXT, targets, weights, uniform(VOCAB, 0.1))
    wanted = F.cross_entropy(expected[counts] @ matrix.T, targets, label_smoothing=0.1, reduction="mean")
    close(loss / len(targets), wanted, dtype)

    (loss / len(targets)).backward()
    wanted.backward()
    close(gradient_of(output_matrix(ours.head)), gradient_of(matrix), dtype)
    pairs = list(gradient_pairs(ours, theirs, pre_norm))
    for mine, other in pairs:
        close(mine, other, dtype)


def twin_attentions(dtype: torch.dtype) -> tuple[MultiHeadAttention, nn.MultiheadAttention]:
    torch.manual_seed(2)
    ours = MultiHeadAttention(WIDTH, HEADS).to(dtype)
    stir(ours)
    theirs = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, dtype=dtype)
    with torch.no_grad():
        for mine, other in attention_pairs(ours, theirs):
            other.copy_(mine)
    return ours, theirs


def same_gradients(mine: Tensor, other: Tensor, inputs: list[tuple[Tensor, Tensor]], dtype: torch.dtype) -> None:
    direction = torch.randn_like(mine)
    (mine * direction).sum().backward()
    (other * direction).sum().backward()
    for our_input, their_input in inputs:
        close(gradient_of(our_input), gradient_of(their_input), dtype)


def twice(*shape: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    first = torch.randn(shape, dtype=dtype, requires_grad=True)
    return first, first.detach().clone().requires_grad_()


KEEP = torch.arange(9) < torch.tensor([[9], [4], [1]])


@types
def test_self_attention_is_torch_multihead_attention(dtype: torch.dtype) -> None:
    ours, theirs = twin_attentions(dtype)
    x, y = twice(3, 9, WIDTH, dtype=dtype)
    pos = torch.arange(9)
    mine = ours(x, AttentionContext(pos, pos, causal, KEEP))
    forbidden = torch.ones(9, 9, dtype=torch.bool).triu(1)
    other, _ = theirs(y, y, y, key_padding_mask=~KEEP, attn_mask=forbidden, need_weights=False)
    close(mine, other, dtype)
    same_gradients(mine, other, [(x, y)], dtype)
    for our_gradient, their_gradient in attention_gradients(ours, theirs):
        close(our_gradient, their_gradient, dtype)


@types
def test_cross_attention_is_torch_multihead_attention(dtype: torch.dtype) -> None:
    ours, theirs = twin_attentions(dtype)
    (x, y), (memory, other_memory) = twice(3, 5, WIDTH, dtype=dtype), twice(3, 9, WIDTH, dtype=dtype)
    q_pos, k_pos = torch.arange(5), torch.arange(9)
    mine = ours.cross_attend(x, ours.project(memory, k_pos), AttentionContext(q_pos, k_pos, keep=KEEP))
    other, _ = theirs(y, other_memory, other_memory, key_padding_mask=~KEEP, need_weights=False)
    close(mine, other, dtype)
    same_gradients(mine, other, [(x, y), (memory, other_memory)], dtype)
    for our_gradient, their_gradient in attention_gradients(ours, theirs):
        close(our_gradient, their_gradient, dtype)


def permute_rows(linear: nn.Linear, order: list[int]) -> None:
    linear.weight.copy_(linear.weight.view(HEADS, -1, WIDTH)[order].reshape(WIDTH, WIDTH))
    linear.bias.copy_(linear.bias.view(HEADS, -1)[order].flatten())


@torch.no_grad()
def test_the_order_of_the_heads_does_not_matter() -> None:
    """Heads permuted together with the blocks of W_o: nothing changes; without them: it does."""
    ours, _ = twin_attentions(torch.float64)
    x = torch.randn(2, 6, WIDTH, dtype=torch.float64)
    context = AttentionContext(torch.arange(6), torch.arange(6))
    before, order = ours(x, context), [2, 0, 3, 1]
    for linear in projections(ours):
        permute_rows(linear, order)
    assert not torch.allclose(ours(x, context), before, rtol=0, atol=1e-3)
    columns = ours.output.weight.view(WIDTH, HEADS, -1)
    ours.output.weight.copy_(columns[:, order].reshape(WIDTH, WIDTH))
    torch.testing.assert_close(ours(x, context), before, rtol=0, atol=1e-10)


@torch.no_grad()
def test_concatenating_heads_is_summing_their_shares() -> None:
    """Concat(head_1 .. head_H) W_o = Σ_h head_h W_o^h: switching all but one head off, one after the other."""
    ours, _ = twin_attentions(torch.float64)
    x = torch.randn(2, 6, WIDTH, dtype=torch.float64)
    context = AttentionContext(torch.arange(6), torch.arange(6))
    whole, full = ours(x, context), ours.output.weight.clone()
    total = torch.zeros_like(whole)
    for head in range(HEADS):
        ours.output.weight.zero_()
        share = slice(head * WIDTH // HEADS, (head + 1) * WIDTH // HEADS)
        ours.output.weight[:, share] = full[:, share]
        total += ours(x, context) - ours.output.bias
    torch.testing.assert_close(total + ours.output.bias, whole, rtol=0, atol=1e-10)


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(ValueError, match=r"num_heads \(3\) must divide d_model \(16\)"):
        MultiHeadAttention(16, 3)
    with pytest.raises(ConfigError, match=r"num_heads \(3\) must divide d_model \(16\)"):
        TransformerConfig(d_model=16, num_heads=3)


def test_attention_starts_as_glorot_of_each_matrix() -> None:
    """√(6 / (d + d)) for each [d, d] matrix; Glorot on the fused [3d, d] would be narrower by √2."""
    torch.manual_seed(0)
    ours = MultiHeadAttention(64, 4)
    for linear in (*projections(ours), ours.output):
        limit = math.sqrt(6 / 128)
        assert 0.99 * limit < float(linear.weight.detach().abs().max()) <= limit
        assert not linear.bias.any()
