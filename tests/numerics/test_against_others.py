"""Our equations against implementations by other people, and where conventions differ, how.

Outputs of whole models, of `generate` and of CTranslate2 are compared in tests/unit/export and tests/unit/engines;
BLEU, chrF and TER with sacreBLEU, error rates with jiwer, in tests/unit/evaluation.
"""

import math
from typing import Any

import entmax as entmax_package
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import GPTNeoXConfig, LlamaConfig, LongformerConfig, ReformerConfig, T5Config
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.gpt_neox.modeling_gpt_neox import GPTNeoXRotaryEmbedding
from transformers.models.gpt_neox.modeling_gpt_neox import apply_rotary_pos_emb as neox_rotary
from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb as gptj_rotary
from transformers.models.gptj.modeling_gptj import create_sinusoidal_positions
from transformers.models.llama.modeling_llama import LlamaMLP, LlamaRMSNorm, LlamaRotaryEmbedding
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as llama_rotary
from transformers.models.longformer.modeling_longformer import LongformerSelfAttention
from transformers.models.reformer.modeling_reformer import LSHSelfAttention
from transformers.models.t5.modeling_t5 import T5Attention

from qkv.functional.attention import attention_weights, entmax, masked_softmax, sparsemax, split_heads
from qkv.functional.feed_forward import feed_forward_swiglu
from qkv.functional.losses import smoothed_cross_entropy, uniform
from qkv.functional.lsh import lsh_attention, shared_keys
from qkv.functional.masks import Projected, build_mask, causal, longformer, within
from qkv.functional.norm import rms_norm
from qkv.functional.parallel.ctc import ctc_log_prob
from qkv.functional.positions import (
    alibi_bias,
    alibi_slopes,
    distances,
    rotary_angles,
    rotate_halves,
    rotate_pairs,
    t5_bias,
    t5_buckets,
)

HEADS, LENGTH, WIDTH = 2, 12, 8


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def assert_close(ours: Tensor, theirs: Tensor, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(ours, theirs.to(ours.dtype), rtol=0, atol=tolerance)


@pytest.mark.parametrize(("ours", "theirs"), [(sparsemax, "sparsemax"), (entmax, "entmax15")])
@pytest.mark.parametrize("spread", [0.1, 1.0, 10.0])
def test_sparse_weights_are_those_of_the_entmax_package(ours: object, theirs: str, spread: float) -> None:
    """With gradients. Rounded scores stand at the threshold now and then: there it gives no gradient, as we."""
    assert callable(ours)
    scores = (spread * draw(3, HEADS, 40, LENGTH) * 4).round().div(4).double().requires_grad_()
    found, wanted = ours(scores), getattr(entmax_package, theirs)(scores, dim=-1)
    assert_close(found, wanted, 1e-9)
    upstream = draw(*scores.shape, seed=1).double()
    ours_by, theirs_by = (torch.autograd.grad(weights, scores, upstream)[0] for weights in (found, wanted))
    assert_close(ours_by, theirs_by, 1e-9)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("buckets", "longest"), [(32, 128), (16, 64), (8, 20)])
def test_buckets_and_biases_of_t5(is_causal: bool, buckets: int, longest: int) -> None:
    """Theirs are computed by a logarithm in float32, which may land on either side where the quotient is whole."""
    config = T5Config(
        d_model=16, d_kv=8, num_heads=2, relative_attention_num_buckets=buckets, relative_attention_max_distance=longest
    )
    config.is_decoder = is_causal
    theirs = T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    positions = torch.arange(2 * longest)
    r = distances(positions, positions)
    found = t5_buckets(r, is_causal, buckets, longest)
    with torch.no_grad():
        theirs.relative_attention_bias.weight.copy_(torch.arange(buckets)[:, None])
        wanted = theirs.compute_bias(len(positions), len(positions))[:, 0]
    sides = buckets if is_causal else buckets // 2
    steps, exact = sides - sides // 2, sides // 2
    for distance in r[found != wanted].abs().tolist():
        place = math.log(distance / exact) / math.log(longest / exact) * steps
        assert abs(place - round(place)) < 1e-6
    torch.nn.init.normal_(theirs.relative_attention_bias.weight)
    near = t5_buckets(distances(positions[:5], positions[:5]), is_causal, buckets, longest)
    assert_close(t5_bias(theirs.relative_attention_bias.weight, near), theirs.compute_bias(5, 5))


@pytest.mark.parametrize("heads", [1, 2, 6, 8, 12])
def test_alibi_gives_the_weights_of_bloom(heads: int) -> None:
    """Bloom adds m_h j, we add -m_h (i - j): in a row these differ by a constant, and the softmax does not see it."""
    kept = torch.ones(1, LENGTH, dtype=torch.long)
    theirs = build_alibi_tensor(kept, heads, torch.float32).reshape(1, heads, 1, LENGTH)
    positions = torch.arange(LENGTH)
    ours = alibi_bias(distances(positions, positions), torch.tensor(alibi_slopes(heads)))
    scores, mask = draw(1, heads, LENGTH, LENGTH), build_mask(causal, positions, positions)
    assert_close(masked_softmax(scores + ours, mask), masked_softmax(scores + theirs, mask))


def test_rotary_halves_are_those_of_llama_and_neox() -> None:
    q, positions = draw(1, HEADS, LENGTH, WIDTH), torch.arange(LENGTH)
    angles = rotary_angles(positions, WIDTH)
    ours = rotate_halves(q, angles.cos().float(), angles.sin().float())
    sizes: dict[str, Any] = {"hidden_size": HEADS * WIDTH, "num_attention_heads": HEADS, "max_position_embeddings": 64}
    llama = LlamaRotaryEmbedding(LlamaConfig(**sizes))
    assert_close(ours, llama_rotary(q, q, *llama(q, positions[None]))[0])
    sizes["rotary_pct"] = 1.0  # of a head, unlike by default
    neox = GPTNeoXRotaryEmbedding(GPTNeoXConfig(**sizes))
    assert_close(ours, neox_rotary(q, q, *neox(q, positions[None]))[0])


def test_rotary_pairs_are_those_of_gptj() -> None:
    """Its tensors have the axes [B, n, H, E]."""
    q = draw(1, HEADS, LENGTH, WIDTH)
    angles = rotary_angles(torch.arange(LENGTH), WIDTH)
    sin, cos = create_sinusoidal_positions(LENGTH, WIDTH)[None].chunk(2, dim=-1)
    theirs = gptj_rotary(q.transpose(1, 2), sin, cos).transpose(1, 2)
    assert_close(rotate_pairs(q, angles.cos().float(), angles.sin().float()), theirs)


def test_rms_norm_and_swiglu_are_those_of_llama() -> None:
    x = draw(2, LENGTH, WIDTH)
    norm = LlamaRMSNorm(WIDTH, eps=1e-5)
    norm.weight.data = draw(WIDTH)
    assert_close(rms_norm(x, norm.weight, 1e-5), norm(x))
    mlp = LlamaMLP(LlamaConfig(hidden_size=WIDTH, num_attention_heads=HEADS, intermediate_size=20))
    weights = (mlp.gate_proj.weight, mlp.up_proj.weight, mlp.down_proj.weight)
    assert_close(feed_forward_swiglu(x, *weights), mlp(x))


@pytest.mark.parametrize("global_tokens", [[], [0], [0, 7]])
def test_longformer(global_tokens: list[int]) -> None:
    """Its window is the sum of both sides, and its lengths are multiples of that. Padding is behind."""
    torch.manual_seed(1)
    width = HEADS * WIDTH
    config = LongformerConfig(hidden_size=width, num_attention_heads=HEADS, attention_window=[4])
    theirs = LongformerSelfAttention(config, layer_id=0).eval()
    x, keep = draw(2, LENGTH, width), torch.ones(2, LENGTH, dtype=torch.bool)
    keep[1, 9:] = False
    chosen = torch.zeros_like(keep)
    chosen[:, global_tokens] = True
    # Its mask: 0 in the window, 10000 for global tokens, -10000 for padding.
    mask = 10000.0 * chosen - 10000.0 * ~keep
    wanted = theirs(
        x, attention_mask=mask, is_index_masked=~keep, is_index_global_attn=chosen, is_global_attn=bool(global_tokens)
    )[0]
    near, far = (
        Projected(*(split_heads(getattr(theirs, f"{name}{which}")(x), HEADS) for name in ("query", "key", "value")))
        for which in ("", "_global")
    )
    positions = torch.arange(LENGTH)
    window = build_mask(within(2, 2), positions, positions)
    assert window is not None
    ours = longformer(near, far, window, chosen, keep).transpose(1, 2).flatten(2)
    assert_close(ours[keep], wanted.reshape(2, LENGTH, width)[keep])


def test_lsh_attention_is_that_of_reformer_but_for_the_scale() -> None:
    """The paper and `transformers` leave q · k with ‖k‖ = 1 as it is; we divide by √d_k as everywhere else.

    In one chunk, where every position finds every other one. What differs besides, with several chunks: theirs lets the
    first chunk look at the last one (it wraps around), ours has none before it; and of two corners that are equally
    near, the hash takes the first by our order of rotations, so the buckets of the two programs are not comparable.
    """
    torch.manual_seed(2)
    config = ReformerConfig(
        hidden_size=HEADS * WIDTH, num_attention_heads=HEADS, attention_head_size=WIDTH, is_decoder=False,
        lsh_attn_chunk_length=LENGTH, num_hashes=1, num_buckets=2, lsh_attention_probs_dropout_prob=0.0, hash_seed=1,
        attn_layers=["lsh"],
    )  # fmt: skip
    theirs = LSHSelfAttention(config, layer_idx=0).eval()
    x = draw(1, LENGTH, HEADS * WIDTH)
    wanted = theirs(x).hidden_states.reshape(1, LENGTH, HEADS, WIDTH).transpose(1, 2)
    q, v = (split_heads(linear(x), HEADS) for linear in (theirs.query_key, theirs.value))
    everything = torch.ones(1, 1, HEADS, LENGTH, LENGTH, dtype=torch.bool)
    assert_close(lsh_attention(q * math.sqrt(WIDTH), shared_keys(q), v, everything), wanted, 1e-4)


def test_softmax_weights_are_those_of_pytorch() -> None:
    q, k = draw(2, HEADS, LENGTH, WIDTH), draw(2, HEADS, 5, WIDTH, seed=1)
    eye = torch.eye(5).expand(2, HEADS, 5, 5)
    assert_close(attention_weights(q, k), F.scaled_dot_product_attention(q, k, eye))


def test_ctc_is_that_of_pytorch() -> None:
    blank = 6
    for seed in range(20):
        log_probs = draw(9, 7, seed=seed).double().log_softmax(dim=-1).requires_grad_()
        target = torch.randint(0, 6, (seed % 5,), generator=torch.Generator().manual_seed(seed))
        wanted = -F.ctc_loss(
            log_probs[:, None], target[None], torch.tensor([9]), torch.tensor([len(target)]), blank, reduction="sum"
        )
        assert_close(ctc_log_prob(log_probs, target.tolist(), blank), wanted, 1e-9)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.4])
def test_uniform_smoothing_is_that_of_pytorch(epsilon: float) -> None:
    logits, targets = draw(LENGTH, 20).requires_grad_(), torch.arange(LENGTH)
    ours, _ = smoothed_cross_entropy(logits.log_softmax(dim=-1), targets, uniform(20, epsilon))
    theirs = F.cross_entropy(logits, targets, label_smoothing=epsilon, reduction="sum")
    assert_close(ours, theirs, 1e-4)
    found, wanted = (torch.autograd.grad(loss, logits)[0] for loss in (ours, theirs))
    assert_close(found, wanted)
