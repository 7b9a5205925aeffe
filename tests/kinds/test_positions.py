"""Every scheme of positions: what it sees, what it does not see, and how far it reaches."""

import pytest
import torch
from torch import Tensor

from qkv.core.errors import QkvError
from qkv.functional.attention import masked_softmax, merge_heads, scaled_dot_scores, split_heads
from qkv.functional.masks import causal
from qkv.kernels.window import Window
from qkv.layers.attention import Attention, MultiHeadAttention
from qkv.layers.attention.context import AttentionContext
from qkv.layers.attention.truncated import TruncatedAttention
from qkv.layers.positions import Positions, positions
from qkv.layers.positions.shaw import Shaw
from tests.support.small import batch_of, decode, small_config, small_model, stir

WIDTH, HEADS, LENGTH = 16, 2, 14
every_scheme = pytest.mark.parametrize("kind", positions.names())


def scheme_of(kind: str, is_causal: bool = False) -> Positions:
    return small_config(positions=kind).positions.build(WIDTH, HEADS, is_causal)


def layer_of(scheme: Positions) -> MultiHeadAttention:
    """Its parameters all drawn, so that no table is by chance without effect."""
    layer = MultiHeadAttention(WIDTH, HEADS, positions=scheme.for_layer()).double()
    stir(layer)
    return layer


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def read(scheme: Positions, layer: Attention, x: Tensor, context: AttentionContext) -> Tensor:
    """One layer on embedded tokens: every place where a scheme acts."""
    with torch.no_grad():
        return layer(scheme.embed(x, context.q_position_ids), context)


@every_scheme
@pytest.mark.parametrize("is_causal", [False, True])
def test_what_sees_distances_does_not_see_an_offset(kind: str, is_causal: bool) -> None:
    scheme = scheme_of(kind, is_causal).double()
    layer, x = layer_of(scheme), torch.randn(2, LENGTH, WIDTH).double()
    near, far = torch.arange(LENGTH), 1000 + torch.arange(LENGTH)
    predicate = causal if is_causal else None
    one, other = (read(scheme, layer, x, AttentionContext(pos, pos, predicate)) for pos in (near, far))
    same = torch.allclose(one, other, rtol=0, atol=1e-9)
    assert same == (positions[kind].sees != "places")


@every_scheme
def test_only_no_positions_let_the_source_be_permuted(kind: str) -> None:
    """Without parameters, or with all of them 0, a table of positions says nothing."""
    scheme = scheme_of(kind).double()
    layer, x, order = layer_of(scheme), torch.randn(2, LENGTH, WIDTH).double(), torch.randperm(LENGTH)
    pos = torch.arange(LENGTH)

    def equivariant() -> bool:
        straight, permuted = (read(scheme, layer, y, AttentionContext(pos, pos)) for y in (x, x[:, order]))
        return torch.allclose(straight[:, order], permuted, rtol=0, atol=1e-9)

    assert equivariant() == (kind == "none")
    learned = [*scheme.parameters(), *layer.positions.parameters()]
    if learned:
        for parameter in learned:
            torch.nn.init.zeros_(parameter)
        assert equivariant()


@every_scheme
def test_drawn_positions_of_a_row_are_those_positions(kind: str) -> None:
    """[B, T] positions, one row at a time, are [T] positions; masks see the true ones."""
    scheme = scheme_of(kind, True).double()
    layer, x = layer_of(scheme), torch.randn(3, LENGTH, WIDTH).double()
    drawn = torch.stack([torch.randperm(60)[:LENGTH].sort().values for _ in range(3)])
    true = torch.arange(LENGTH)
    together = read(scheme, layer, x, AttentionContext(true, true, causal, drawn=drawn))
    for row in range(3):
        alone = read(scheme, layer, x[row : row + 1], AttentionContext(drawn[row], drawn[row], causal))
        torch.testing.assert_close(together[row : row + 1], alone, rtol=0, atol=1e-10)


@every_scheme
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("position_ids", ["true", "drawn"])
def test_a_window_knows_positions_as_the_dense_form_does(kind: str, dilation: int, position_ids: str) -> None:
    """Of two equal predicates only the first is known to the windowed path."""
    scheme = scheme_of(kind, True).double()
    layer = TruncatedAttention(WIDTH, HEADS, Window(3, 3, dilation), positions=scheme.for_layer()).double()
    stir(layer)
    x, true = torch.randn(2, 40, WIDTH).double(), torch.arange(40)
    drawn = torch.stack([torch.randperm(90)[:40].sort().values for _ in x]) if position_ids == "drawn" else None
    window, dense = (
        read(scheme, layer, x, AttentionContext(true, true, predicate, drawn=drawn))
        for predicate in (causal, lambda q_pos, k_pos: k_pos <= q_pos)
    )
    torch.testing.assert_close(window, dense, rtol=0, atol=1e-10)


@every_scheme
def test_longer_input_is_read_or_refused(kind: str) -> None:
    model = small_model(positions=kind).eval()
    batch = batch_of([(1100, 1200)])
    if model.src_embedder.positions.max_length is None:
        assert bool(torch.isfinite(decode(model, batch.src, batch.src_keep, batch.tgt_in)).all())
    else:
        with pytest.raises(QkvError, match="1101 tokens does not fit learned positions up to 1024"):
            decode(model, batch.src, batch.src_keep, batch.tgt_in)


def test_shaw_with_one_distance_is_one_more_value() -> None:
    """max_distance 0: a^K adds the same to all scores of a query, so only a^V stays."""
    shaw = Shaw(WIDTH // HEADS, 0)
    layer = layer_of(shaw)
    x, pos = torch.randn(2, LENGTH, WIDTH).double(), torch.arange(LENGTH)
    q, k, v = (split_heads(part(x), HEADS) for part in (layer.query, layer.key, layer.value))
    plain = masked_softmax(scaled_dot_scores(q, k)) @ v
    expected = layer.output(merge_heads(plain + shaw.values[0]))
    torch.testing.assert_close(layer(x, AttentionContext(pos, pos)), expected, rtol=0, atol=1e-10)


@torch.no_grad()
def test_shaw_drops_the_same_weights_of_keys_and_of_distances() -> None:
    """With all keys alike and a^V = -v, what is read cancels in every draw."""
    layer = MultiHeadAttention(WIDTH, 1, 0.5, Shaw(WIDTH, 0)).double()
    x, pos = torch.randn(WIDTH).double().expand(2, LENGTH, WIDTH), torch.arange(LENGTH)
    for scale, expected in ((-1, False), (1, True)):
        layer.get_parameter("positions.values").copy_(scale * layer.value(x[0, :1]))
        assert bool((layer(x, AttentionContext(pos, pos)) - layer.output.bias).abs().gt(1e-9).any()) == expected
    assert not torch.allclose(layer(x, AttentionContext(pos, pos)), layer(x, AttentionContext(pos, pos)))


@pytest.mark.parametrize("keys", [5, 40])
def test_shaw_of_no_key_is_nothing(keys: int) -> None:
    layer, pos = layer_of(Shaw(WIDTH // HEADS, 4)), torch.arange(keys)
    keep = torch.zeros(2, keys, dtype=torch.bool)
    found = layer(torch.randn(2, keys, WIDTH).double(), AttentionContext(pos, pos, keep=keep))
    assert torch.equal(found, layer.output.bias.expand_as(found))


def test_the_t5_table_stands_once_in_a_stack_and_shaw_s_in_every_layer() -> None:
    t5 = small_model(positions="t5")
    assert [name for name, _ in t5.named_parameters() if "positions" in name] == [
        "src_embedder.positions.weight",
        "tgt_embedder.positions.weight",
    ]
    assert all(layer.attention.positions is t5.src_embedder.positions for layer in t5.encoder.in_order())
    shaw = small_model(positions={"kind": "shaw", "max_distance": 2})
    tables = [parameter.shape for name, parameter in shaw.named_parameters() if "positions" in name]
    assert tables == 8 * [(5, 8)]
    for model in (t5, shaw):
        assert all(type(layer.cross_attention.positions) is Positions for layer in model.decoder.in_order())


def test_a_head_of_odd_width_cannot_be_turned() -> None:
    with pytest.raises(ValueError, match=r"the width of a head \(5\) is odd; change num_heads or d_model"):
        small_config(d_model=10, positions="rope")
    with pytest.raises(ValueError, match=r"longest \(16\) must be above half of buckets \(32\)"):
        small_config(positions={"kind": "t5", "longest": 16})
