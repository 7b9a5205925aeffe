"""The recurrent model against its equations, written as loops over single numbers and vectors in float64."""

from collections.abc import Sequence

import torch
from torch import Tensor

from qkv.models.recurrent.config import RecurrentConfig, build_recurrent
from qkv.models.recurrent.model import RecurrentModel
from qkv.text import SPECIAL
from tests.support.small import VOCAB, batch_of, stir


def recurrent(layers: int = 2) -> RecurrentModel:
    torch.manual_seed(0)
    config = RecurrentConfig(d_model=8, encoder_layers=layers, decoder_layers=layers, dropout=0.0)
    model = build_recurrent(config, VOCAB, VOCAB, SPECIAL.pad, "target").double().eval()
    stir(model)
    return model


def lstm(x: Tensor, h: Tensor, c: Tensor, weights: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """One cell, one vector: the gates i, f, g, o."""
    from_input, from_state, input_bias, state_bias = weights
    i, f, g, o = (from_input @ x + input_bias + from_state @ h + state_bias).chunk(4)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def encoder_states(model: RecurrentModel, ids: list[int]) -> list[Tensor]:
    outputs = [model.src_tokens.weight[token] * model.src_tokens.scale for token in ids]
    parameters = dict(model.encoder.lstm.named_parameters())
    for layer in range(model.encoder.lstm.num_layers):
        sides = []
        for suffix, order in (("", list(range(len(ids)))), ("_reverse", list(range(len(ids)))[::-1])):
            names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            weights = [parameters[f"{name}_l{layer}{suffix}"] for name in names]
            h = c = torch.zeros(4, dtype=torch.float64)
            found = {}
            for place in order:
                h, c = lstm(outputs[place], h, c, weights)
                found[place] = h
            sides.append(found)
        outputs = [torch.cat([sides[0][place], sides[1][place]]) for place in range(len(ids))]
    return outputs


def by_loops(model: RecurrentModel, src: list[int], tgt_in: list[int]) -> Tensor:
    memory = encoder_states(model, src)
    layers, attention = len(model.decoder.cells), model.attention
    first = torch.tanh(model.first.weight @ (sum(memory, torch.zeros(8).double()) / len(memory)) + model.first.bias)
    h, c = list(first.chunk(layers)), [torch.zeros(8, dtype=torch.float64)] * layers
    outputs = []
    for token in tgt_in:
        embedded = model.tgt_tokens.weight[token] * model.tgt_tokens.scale
        asked = attention.query.weight @ h[-1]
        keys = [attention.key.weight @ state + attention.key.bias for state in memory]
        scores = [attention.score.v[0] @ torch.tanh(asked + key) for key in keys]
        weights = torch.softmax(torch.stack(scores), dim=0)
        context = sum((w * state for w, state in zip(weights, memory, strict=True)), torch.zeros(8).double())
        x = torch.cat([embedded, context])
        for number, cell in enumerate(model.decoder.cells):
            parts = list(cell.parameters())
            h[number], c[number] = lstm(x, h[number], c[number], parts)
            x = h[number]
        outputs.append(torch.tanh(model.readout.weight @ torch.cat([x, context, embedded]) + model.readout.bias))
    return torch.stack(outputs)


def test_the_model_is_its_equations() -> None:
    model, batch = recurrent(), batch_of([(4, 3), (1, 5)])
    with torch.no_grad():
        found = model(batch).states
        for row, (src, tgt) in enumerate([(5, 4), (2, 6)]):
            wanted = by_loops(model, batch.src[row, :src].tolist(), batch.tgt_in[row, :tgt].tolist())
            torch.testing.assert_close(found[row, :tgt], wanted, atol=1e-12, rtol=0)
