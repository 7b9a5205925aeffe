"""Modules from sizes and plain tensors: the same numbers as inside a model built by a config."""

import pytest
import torch
from torch import Tensor

from qkv import Decoder, Encoder, Transformer, attentions, capture_attention, positions
from qkv.core.errors import ConfigError
from qkv.models.transformer.build import build_model
from qkv.models.transformer.config import TransformerConfig

SIZES = {"d_model": 16, "num_heads": 2, "d_ff": 32, "dropout": 0.0}
SELF = [kind for kind in attentions.names() if attentions.example(kind).self_attention]
REQUIRED = {"truncated": {"left": 2}, "longformer": {"window": 2}}


def vectors(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def test_a_transformer_from_sizes_is_the_one_of_the_config() -> None:
    torch.manual_seed(3)
    own = Transformer(11, 13, layers=(1, 2), d_model=16, num_heads=2, d_ff=32, dropout=0.0).eval()
    torch.manual_seed(3)
    config = TransformerConfig(encoder_layers=1, decoder_layers=2, **SIZES)
    other = build_model(config, 11, 13, pad=0).eval()
    src, tgt_in = torch.tensor([[5, 6, 3], [7, 3, 0]]), torch.tensor([[2, 6], [2, 8]])
    keep = src != 0
    expected = other.head.log_probs(other.decode(tgt_in, other.encode(src, keep), keep))
    torch.testing.assert_close(own(src, tgt_in), expected, rtol=0, atol=0)


@pytest.mark.parametrize("kind", positions.names())
def test_padding_and_the_future_change_nothing(kind: str) -> None:
    encoder = Encoder(16, 1, 2, 32, 0.0, positions=kind).eval()
    decoder = Decoder(16, 1, 2, 32, 0.0, positions=kind).eval()
    x, y = vectors(1, 5, 16), vectors(1, 4, 16)
    keep = torch.tensor([[True, True, True, False, False]])
    memory = encoder(x, keep)
    torch.testing.assert_close(memory[:, :3], encoder(x[:, :3]))
    states = decoder(y, memory, keep)
    torch.testing.assert_close(states[:, :2], decoder(y[:, :2], memory[:, :3]))


@pytest.mark.parametrize("kind", SELF)
def test_an_attention_is_chosen_by_its_keys(kind: str) -> None:
    assert Encoder(16, 1, 2, attention={"kind": kind, **REQUIRED.get(kind, {})})(vectors(2, 5, 16)).shape == (2, 5, 16)


@pytest.mark.parametrize("kind", SELF)
def test_every_attention_works_without_a_context(kind: str) -> None:
    config = attentions[kind].model_validate({"kind": kind, **REQUIRED.get(kind, {})})
    built = config.build(16, 2, 0.0, None, 0).eval()
    assert built(vectors(2, 5, 16)).shape == (2, 5, 16)


def test_attention_of_a_stack_can_be_captured() -> None:
    encoder = Encoder(16, 2, 2)
    with capture_attention(encoder) as record:
        encoder(vectors(1, 5, 16))
    assert {weights.shape for weights in (record[name] for name in record)} == {(1, 2, 5, 5)}
    assert len(record) == 2


def test_wrong_sizes_are_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"num_heads \(3\) must divide d_model \(16\)"):
        Encoder(16, 1, 3)
    with pytest.raises(ConfigError, match="positions"):
        Transformer(11, 13, positions="ropes")
