"""ConvS2S and ByteNet against their equations, written as loops over single vectors in float64."""

import math
from typing import Literal

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from qkv.data.batch import Batch
from qkv.layers.convolution import GatedConvolution
from qkv.models.base import Model
from qkv.models.bytenet.config import ByteNetConfig
from qkv.models.bytenet.layers import ByteNetBlock
from qkv.models.bytenet.model import ByteNet
from qkv.models.convolutional.config import ConvolutionalConfig
from qkv.models.convolutional.model import ConvolutionalModel
from qkv.text import SPECIAL, TextConfig, TokenizerPair, WhitespaceConfig
from tests.support.small import batch_of, small_text, stir

TOKENIZERS = small_text()[1]
VOCAB = len(TOKENIZERS.tgt)
HALF = math.sqrt(0.5)


def stirred(model: Model) -> Model:
    stir(model)
    return model.double().eval()


def text_of(words: int) -> TokenizerPair:
    """One tokenizer of so many words for both sides."""
    return TextConfig(shared=WhitespaceConfig()).train(lambda: [" ".join(map(str, range(words)))], lambda: [])


@torch.no_grad()
def starting_loss(model: Model, batch: Batch) -> float:
    states, context = model(batch)
    return -float(model.head.log_probs(states, context).gather(-1, batch.tgt_out[..., None]).mean())


def convolved(conv: nn.Conv1d, inputs: list[Tensor], at: int, first: int) -> Tensor:
    """One output of a convolution that reads inputs[at + first], inputs[at + first + dilation], ...; zeros outside."""
    result = conv.get_parameter("bias").clone()
    for step in range(conv.kernel_size[0]):
        place = at + first + step * conv.dilation[0]
        if 0 <= place < len(inputs):
            result = result + conv.weight[:, :, step] @ inputs[place]
    return result


def gated(layer: GatedConvolution, inputs: list[Tensor], at: int, first: int) -> Tensor:
    a, b = convolved(layer.convolution.conv, inputs, at, first).chunk(2)
    return a * torch.sigmoid(b)


def linear(module: nn.Linear, x: Tensor) -> Tensor:
    return module.weight @ x + module.bias


def conv_s2s_by_loops(model: ConvolutionalModel, src: list[int], tgt_in: list[int]) -> Tensor:
    pos = torch.arange(100)
    embedded = list(model.src_positions.embed(model.src_tokens(torch.tensor([src])), pos[: len(src)])[0])
    h = [linear(model.encoder.enter, x) for x in embedded]
    for layer in model.encoder.layers:
        assert isinstance(layer, GatedConvolution)
        h = [(h[at] + gated(layer, h, at, -(layer.span // 2))) * HALF for at in range(len(h))]
    z = [linear(model.encoder.leave, x) for x in h]
    values = [(one + two) * HALF for one, two in zip(z, embedded, strict=True)]
    told = list(model.tgt_positions.embed(model.tgt_tokens(torch.tensor([tgt_in])), pos[: len(tgt_in)])[0])
    h = [linear(model.enter, x) for x in told]
    for layer in model.in_order():
        inputs, h = h, []
        for at, g in enumerate(told):
            y = gated(layer.convolution, inputs, at, -layer.convolution.span)
            query = (linear(layer.attention.query, y) + g) * HALF
            weights = torch.stack([query @ key for key in z]).softmax(0)
            context = sum((w * v for w, v in zip(weights, values, strict=True)), torch.zeros(8).double())
            attended = linear(layer.attention.output, math.sqrt(len(src)) * context)
            h.append((inputs[at] + (y + attended) * HALF) * HALF)
    return torch.stack([linear(model.leave, x) for x in h])


def test_conv_s2s_is_its_equations() -> None:
    torch.manual_seed(0)
    config = ConvolutionalConfig(d_model=8, width=6, kernel=3, encoder_layers=2, decoder_layers=2, dropout=0.0)
    model = stirred(config.build(TOKENIZERS))
    assert isinstance(model, ConvolutionalModel)
    batch = batch_of([(4, 3), (1, 5)], vocab=VOCAB)
    with torch.no_grad():
        found = model(batch).states
        for row, (s, t) in enumerate([(5, 4), (2, 6)]):
            wanted = conv_s2s_by_loops(model, batch.src[row, :s].tolist(), batch.tgt_in[row, :t].tolist())
            torch.testing.assert_close(found[row, :t], wanted, atol=1e-12, rtol=0)


def normed(norm: nn.LayerNorm, x: Tensor) -> Tensor:
    spread = (x - x.mean()) / torch.sqrt(((x - x.mean()) ** 2).mean() + norm.eps)
    return torch.relu(norm.weight * spread + norm.bias)


def block_by_loops(block: ByteNetBlock, x: list[Tensor], first: int) -> list[Tensor]:
    inner = [normed(block.shrunk_norm, linear(block.shrink, normed(block.norm, each))) for each in x]
    mixed = [normed(block.mixed_norm, convolved(block.convolution.conv, inner, at, first)) for at in range(len(x))]
    return [one + linear(block.grow, two) for one, two in zip(x, mixed, strict=True)]


def bytenet_by_loops(model: ByteNet, src: list[int], tgt_in: list[int]) -> Tensor:
    zero = torch.zeros(8).double()
    x = list(model.src_tokens(torch.tensor([src]))[0])
    x += [zero] * (math.ceil(model.length_ratio * len(src)) - len(src))
    for block in model.encoder.in_order():
        x = block_by_loops(block, x, -(block.convolution.span // 2))
    columns = x + [zero] * len(tgt_in)
    told = model.tgt_tokens(torch.tensor([tgt_in]))[0]
    h = [linear(model.enter, torch.cat([one, two])) for one, two in zip(told, columns, strict=False)]
    for block in model.decoder.in_order():
        h = block_by_loops(block, h, -block.convolution.span)
    return torch.stack([normed(model.final, each) for each in h])


def test_bytenet_is_its_equations() -> None:
    torch.manual_seed(0)
    model = stirred(ByteNetConfig(d_model=8, dilations=(1, 2), encoder_repeats=2, dropout=0.0).build(TOKENIZERS))
    assert isinstance(model, ByteNet)
    batch = batch_of([(4, 9), (2, 3)], vocab=VOCAB)
    with torch.no_grad():
        found = model(batch).states
        for row, (s, t) in enumerate([(5, 10), (3, 4)]):
            wanted = bytenet_by_loops(model, batch.src[row, :s].tolist(), batch.tgt_in[row, :t].tolist())
            torch.testing.assert_close(found[row, :t], wanted, atol=1e-12, rtol=0)


def test_a_gated_block_keeps_the_variance_at_the_start() -> None:
    """0.25 of the variance is lost to the gate, and the initialisation gives back a factor of four and a half."""
    torch.manual_seed(0)
    layer, x = GatedConvolution(512, 3), torch.randn(1, 2050, 512)
    with torch.no_grad():
        assert 1.0 < float(layer(x).var()) < 1.8


@pytest.mark.parametrize("sharing", ["all", "none"])
def test_conv_s2s_looks_everywhere_and_guesses_at_the_start(sharing: Literal["all", "none"]) -> None:
    """q·z is not divided by a root of the width, so larger embeddings would make attention nearly one-hot."""
    torch.manual_seed(0)
    tokenizers = text_of(2000)
    model = ConvolutionalConfig(dropout=0.0, share_embeddings=sharing).build(tokenizers).eval()
    batch = batch_of([(15, 15)] * 4, vocab=len(tokenizers.tgt))
    with torch.no_grad(), model.watch_cross_attention() as watched:
        loss = starting_loss(model, batch)
        embedded = model.src_tokens(batch.src)
        placed = model.src_positions.embed(torch.zeros_like(embedded), torch.arange(16))
    assert len(watched) == 3
    for weights in watched:
        assert float(torch.special.entr(weights).sum(-1).mean()) > 0.9 * math.log(16)
    assert abs(loss - math.log(len(tokenizers.tgt))) < 0.2
    assert 0.09 < float(embedded.std()) < 0.11
    assert 0.09 < float(placed.std()) < 0.11
    assert not model.src_tokens.weight[SPECIAL.pad].any()


def test_bytenet_guesses_at_the_start() -> None:
    torch.manual_seed(0)
    tokenizers = text_of(2000)
    model = ByteNetConfig(dropout=0.0).build(tokenizers).eval()
    loss = starting_loss(model, batch_of([(15, 15)] * 4, vocab=len(tokenizers.tgt)))
    assert abs(loss - math.log(len(tokenizers.tgt))) < 0.5


def test_a_gated_convolution_is_that_of_torch() -> None:
    torch.manual_seed(0)
    layer, x = GatedConvolution(6, 5).double(), torch.randn(2, 11, 6).double()
    conv = layer.convolution.conv
    wanted = F.glu(F.conv1d(x.transpose(1, 2), conv.weight, conv.bias), 1).transpose(1, 2)
    torch.testing.assert_close(layer(x), wanted)


def read_by(model: Model, at: int, length: int) -> list[int]:
    """The target inputs that change the state at position `at`."""
    batch = batch_of([(3, length - 1)], vocab=VOCAB)
    with torch.no_grad():
        before, places = model(batch).states[0, at], []
        for place in range(length):
            kept = int(batch.tgt_in[0, place])
            batch.tgt_in[0, place] = 5 + (kept - 4) % (VOCAB - 5)
            if not torch.equal(model(batch).states[0, at], before):
                places.append(place)
            batch.tgt_in[0, place] = kept
    return places


def test_the_receptive_field_of_the_decoders() -> None:
    """1 + layers (kernel - 1) positions of ConvS2S, and 1 + (kernel - 1) sum of dilations of ByteNet."""
    torch.manual_seed(0)
    conv = stirred(ConvolutionalConfig(d_model=8, encoder_layers=1, decoder_layers=2, dropout=0.0).build(TOKENIZERS))
    assert read_by(conv, at=9, length=12) == [5, 6, 7, 8, 9]
    net = stirred(ByteNetConfig(d_model=8, dilations=(1, 2), dropout=0.0).build(TOKENIZERS))
    assert read_by(net, at=9, length=12) == [3, 4, 5, 6, 7, 8, 9]


def test_bytenet_reads_no_column_after_the_last_one() -> None:
    """A source of five tokens has six columns; what comes later depends on the source only through these."""
    torch.manual_seed(0)
    model = ByteNetConfig(d_model=8, kernel=1, dilations=(1,), dropout=0.0).build(TOKENIZERS).double().eval()
    stir(model)
    batch = batch_of([(4, 9)], vocab=VOCAB)
    columns = model.encode(batch.src, batch.src_keep)
    assert columns.shape[1] == math.ceil(1.2 * 5)
    with torch.no_grad():
        before = model(batch).states
        batch.src[0, 0] = 5 + (int(batch.src[0, 0]) - 4) % (VOCAB - 5)
        changed = (model(batch).states != before).any(dim=-1)[0]
    # Kernel 1: each position reads its own column only, so that exactly the first one changes.
    assert changed.tolist() == [True] + [False] * 9


def test_attention_of_every_layer_can_be_trained() -> None:
    torch.manual_seed(0)
    model = stirred(ConvolutionalConfig(d_model=8, encoder_layers=1, decoder_layers=2, dropout=0.0).build(TOKENIZERS))
    batch = batch_of([(4, 3), (1, 5)], vocab=VOCAB)
    with model.watch_cross_attention([2]) as weights:
        attention = model(batch).context.attention
    assert attention is not None
    assert torch.equal(weights[0][:, 0], attention)
    assert weights[0].requires_grad
    assert bool((attention[1, :, 2:] == 0).all())
    torch.testing.assert_close(attention.sum(-1), torch.ones(2, 6).double())
