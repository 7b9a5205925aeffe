"""The recurrent model against its equations, written as loops over single vectors in float64, and against torch.nn."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from qkv.layers.attention.recording import capture_attention
from qkv.layers.attention.scores import Additive, General
from qkv.layers.recurrent import STACKS, Cells
from qkv.layers.recurrent.encoders import UnidirectionalEncoder
from qkv.layers.recurrent.lstmn import LSTMNEncoder, LSTMNLayer
from qkv.models.recurrent.config import RecurrentConfig, build_recurrent
from qkv.models.recurrent.model import RecurrentModel
from qkv.text import SPECIAL
from tests.support.small import VOCAB, batch_of, stir

WIDTH = 8
Vectors = list[Tensor]


def lstm(x: Tensor, state: Vectors, weights: Sequence[Tensor]) -> Vectors:
    """One cell, one vector: the gates i, f, g, o."""
    from_input, from_state, input_bias, state_bias = weights
    i, f, g, o = (from_input @ x + input_bias + from_state @ state[0] + state_bias).chunk(4)
    c = torch.sigmoid(f) * state[1] + torch.sigmoid(i) * torch.tanh(g)
    return [torch.sigmoid(o) * torch.tanh(c), c]


def gru(x: Tensor, state: Vectors, weights: Sequence[Tensor]) -> Vectors:
    """One cell, one vector: the gates r, z and the new state n."""
    from_input, from_state, input_bias, state_bias = weights
    (xr, xz, xn), (hr, hz, hn) = (from_input @ x + input_bias).chunk(3), (from_state @ state[0] + state_bias).chunk(3)
    r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
    return [(1 - z) * torch.tanh(xn + r * hn) + z * state[0]]


CELLS = {"lstm": (lstm, 2), "gru": (gru, 1)}


def zeros(count: int, width: int) -> Vectors:
    return [torch.zeros(width, dtype=torch.float64) for _ in range(count)]


def by_kernel(model: RecurrentModel, config: RecurrentConfig, outputs: Vectors) -> tuple[Vectors, Tensor]:
    """What an encoder of PyTorch's layers gives: each layer and direction as a loop."""
    cell, parts = CELLS[config.cell]
    parameters = {name.split(".")[-1]: weight for name, weight in model.encoder.named_parameters()}
    both = config.encoder.kind == "bidirectional"
    forward = list(range(len(outputs)))
    orders = [("", forward), ("_reverse", forward[::-1])] if both else [("", forward)]
    if getattr(config.encoder, "reverse", False):
        orders = [("", forward[::-1])]
    ends: Vectors = []
    for layer in range(config.encoder_layers):
        sides, ends = [], []
        for suffix, order in orders:
            names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            weights = [parameters[f"{name}_l{layer}{suffix}"] for name in names]
            state, found = zeros(parts, WIDTH // len(orders)), {}
            for place in order:
                state = cell(outputs[place], state, weights)
                found[place] = state[0]
            sides.append(found)
            ends.append(state[0])
        outputs = [torch.cat([side[place] for side in sides]) for place in forward]
    return outputs, torch.cat(ends)


def by_lstmn(model: RecurrentModel, outputs: Vectors) -> tuple[Vectors, Tensor]:
    for layer in model.encoder.get_submodule("layers").children():
        assert isinstance(layer, LSTMNLayer)
        attended = zeros(2, WIDTH)
        tape: list[Vectors] = []
        for x in outputs:
            if tape:
                asked = layer.input(x) + layer.before(attended[0])
                scores = [layer.score.v[0] @ torch.tanh(layer.key(h) + asked) for h, _ in tape]
                weights = torch.softmax(torch.stack(scores), dim=0)
                attended = [
                    sum((w * s[part] for w, s in zip(weights, tape, strict=True)), zeros(1, WIDTH)[0])
                    for part in (0, 1)
                ]
            tape.append(lstm(x, attended, list(layer.cell.parameters())))
        outputs = [h for h, _ in tape]
    return outputs, outputs[-1]


def context_of(model: RecurrentModel, asked: Tensor, memory: Vectors) -> Tensor:
    attention = model.attention
    assert attention is not None
    asked, keys = attention.query(asked), [attention.key(state) for state in memory]
    if isinstance(attention.score, Additive):
        scores = [attention.score.v[0] @ torch.tanh(asked + key) for key in keys]
    elif isinstance(attention.score, General):
        scores = [asked @ attention.score.weight[0] @ key for key in keys]
    else:
        scores = [asked @ key for key in keys]
    weights = torch.softmax(torch.stack(scores), dim=0)
    return sum((w * state for w, state in zip(weights, memory, strict=True)), zeros(1, WIDTH)[0])


def by_loops(model: RecurrentModel, config: RecurrentConfig, src: list[int], tgt_in: list[int]) -> Tensor:
    inputs = [model.src_tokens.weight[token] * model.src_tokens.scale for token in src]
    memory, last = by_lstmn(model, inputs) if config.encoder.kind == "lstmn" else by_kernel(model, config, inputs)
    summary = last if config.first_state == "last" else torch.stack(memory).mean(dim=0)
    cell, parts = CELLS[config.cell]
    states = [[h, *zeros(parts - 1, WIDTH)] for h in torch.tanh(model.first(summary)).chunk(config.decoder_layers)]
    output, outputs = zeros(1, WIDTH)[0], []
    for token in tgt_in:
        embedded = model.tgt_tokens.weight[token] * model.tgt_tokens.scale
        read = [embedded]
        if config.attends and config.attend == "before":
            read.append(context_of(model, states[-1][0], memory))
        if config.input_feeding:
            read.append(output)
        x = torch.cat(read)
        for number, weights in enumerate(model.decoder.cells):
            states[number] = cell(x, states[number], list(weights.parameters()))
            x = states[number][0]
        if not config.attends:
            parts_of_output = [x, embedded]
        elif config.attend == "before":
            parts_of_output = [x, read[1], embedded]
        else:
            parts_of_output = [context_of(model, x, memory), x]
        output = torch.tanh(model.readout(torch.cat(parts_of_output)))
        outputs.append(output)
    return torch.stack(outputs)


CONTENT = {"kind": "content", "project": True}
CASES: dict[str, dict[str, Any]] = {
    "bahdanau": {},
    "gru": {"cell": "gru"},
    "luong dot": {"attend": "after", "attention": {"kind": "content", "score": "dot"}},
    "luong general, fed": {
        "attend": "after",
        "input_feeding": True,
        "attention": {"kind": "content", "score": "general"},
    },
    "gru, projected dot": {"cell": "gru", "attend": "after", "attention": {**CONTENT, "score": "dot"}},
    "gru, fed": {"cell": "gru", "attend": "after", "input_feeding": True},
    "fixed vector": {"attention": "none", "encoder": "unidirectional", "first_state": "last"},
    "fixed vector, reversed": {
        "cell": "gru",
        "attention": "none",
        "encoder": {"kind": "unidirectional", "reverse": True},
        "first_state": "last",
    },
    "both directions, last": {"first_state": "last"},
    "lstmn": {"encoder": "lstmn", "first_state": "last"},
}


@pytest.mark.parametrize("name", CASES)
def test_the_model_is_its_equations(name: str) -> None:
    torch.manual_seed(0)
    config = RecurrentConfig(d_model=WIDTH, encoder_layers=2, decoder_layers=2, dropout=0.0, **CASES[name])
    model = build_recurrent(config, VOCAB, VOCAB, SPECIAL.pad, "target").double().eval()
    stir(model)
    batch = batch_of([(4, 3), (1, 5)])
    with torch.no_grad():
        found = model(batch).states
        for row, (src, tgt) in enumerate([(5, 4), (2, 6)]):
            wanted = by_loops(model, config, batch.src[row, :src].tolist(), batch.tgt_in[row, :tgt].tolist())
            torch.testing.assert_close(found[row, :tgt], wanted, atol=1e-12, rtol=0)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_cells_are_those_of_torch_step_by_step_and_at_once(cell: Cells) -> None:
    """With copied weights; also their gradients."""
    torch.manual_seed(0)
    stack = STACKS[cell](5, WIDTH, 3).double()
    theirs = (nn.LSTM if cell == "lstm" else nn.GRU)(5, WIDTH, 3, batch_first=True).double()
    weights = list(chain.from_iterable(each.parameters() for each in stack.cells))
    with torch.no_grad():
        for own, other in zip(weights, theirs.parameters(), strict=True):
            other.copy_(own)
    x, first = torch.randn(2, 6, 5).double(), stack.first(torch.randn(3, 2, WIDTH).double())
    wanted, ended = theirs(x, first if cell == "lstm" else first[0])
    at_once, last = stack.run(x, first)
    steps, state = [], first
    for token in x.unbind(1):
        state = stack(token, state)
        steps.append(state[0][-1])
    for found, after in ((at_once, last), (torch.stack(steps, dim=1), state)):
        torch.testing.assert_close(found, wanted, atol=1e-12, rtol=0)
        torch.testing.assert_close(after if cell == "lstm" else after[0], ended, atol=1e-12, rtol=0)
    upstream = torch.randn_like(wanted)
    expected = torch.autograd.grad(wanted, list(theirs.parameters()), upstream, retain_graph=True)
    for found in (at_once, torch.stack(steps, dim=1)):
        gradients = torch.autograd.grad(found, weights, upstream, retain_graph=True)
        torch.testing.assert_close(gradients, expected, atol=1e-10, rtol=0)


class NewestOnly(LSTMNLayer):
    """All the weight on the state before."""

    def weights(self, query: Tensor, keys: Tensor) -> Tensor:
        return nn.functional.one_hot(torch.tensor([keys.shape[1] - 1] * len(keys)), keys.shape[1]).double()


def test_an_lstmn_that_attends_to_the_last_state_alone_is_an_lstm() -> None:
    torch.manual_seed(0)
    encoder, plain = LSTMNEncoder(WIDTH, 1).double(), UnidirectionalEncoder("lstm", WIDTH, 1).double()
    without = NewestOnly(WIDTH).double()
    without.load_state_dict(encoder.layers[0].state_dict())
    with torch.no_grad():
        for own, other in zip(without.cell.parameters(), plain.parameters(), strict=True):
            other.copy_(own)
    x, keep = torch.randn(2, 6, WIDTH).double(), torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
    with capture_attention(encoder) as record:
        different = encoder(x, keep).states
    (weights,) = record.passes["layers.0"]
    torch.testing.assert_close(weights.sum(-1)[:, 0], torch.tensor([[0.0, 1, 1, 1, 1, 1]] * 2).double())
    assert not weights.triu().any()
    encoder.layers[0] = without
    for found, wanted in zip(encoder(x, keep), plain(x, keep), strict=True):
        torch.testing.assert_close(found, wanted, atol=1e-12, rtol=0)
    assert not torch.allclose(different, plain(x, keep).states)
