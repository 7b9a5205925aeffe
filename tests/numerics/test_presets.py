"""Sizes of the presets, and which parameters are one and the same."""

from typing import Any

import pytest
import torch

from qkv.core.errors import ConfigError
from qkv.models.heads.linear import output_matrix
from qkv.models.transformer.build import build_model
from qkv.models.transformer.config import PRESETS, TransformerConfig
from qkv.models.transformer.model import Transformer
from qkv.text import SPECIAL
from tests.support.small import small_model


def on_paper(config: TransformerConfig, src_vocab: int = 37_000, tgt_vocab: int = 37_000) -> Transformer:
    """A model whose tensors have shapes and no memory."""
    with torch.device("meta"):
        return build_model(config, src_vocab, tgt_vocab, SPECIAL.pad)


def count(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def encoder_layer(d: int, f: int) -> int:
    """Four [d, d] matrices with biases, the two of the feed-forward network, two norms."""
    return 4 * (d * d + d) + (d * f + f + f * d + d) + 2 * 2 * d


def decoder_layer(d: int, f: int) -> int:
    return encoder_layer(d, f) + 4 * (d * d + d) + 2 * d


def test_base_has_the_parameters_of_the_paper() -> None:
    """63,082,496 with one vocabulary of 37,000 for source, target and output. The paper's table 3 says 65 million:
    the same number rounded to the nearest five million."""
    found = count(on_paper(TransformerConfig(preset="base", share_embeddings="all")))
    assert found == 63_082_496
    assert found == 6 * encoder_layer(512, 2048) + 6 * decoder_layer(512, 2048) + 37_000 * 512
    assert round(found / 5e6) * 5 == 65


def test_big_has_the_parameters_of_the_paper() -> None:
    """214,245,376; the paper's table 3 says 213 million."""
    found = count(on_paper(TransformerConfig(preset="big", share_embeddings="all")))
    assert found == 6 * encoder_layer(1024, 4096) + 6 * decoder_layer(1024, 4096) + 37_000 * 1024
    assert abs(found / 213e6 - 1) < 0.01


@pytest.mark.parametrize("preset", PRESETS)
def test_the_modules_have_the_sizes_of_the_preset(preset: str) -> None:
    config = TransformerConfig(preset=preset, share_embeddings="all")
    assert config.model_dump(include=set(PRESETS[preset])) == PRESETS[preset]
    sizes = config.d_model, config.d_ff
    stacks = config.encoder_layers * encoder_layer(*sizes) + config.decoder_layers * decoder_layer(*sizes)
    model = on_paper(config, 100, 100)
    assert count(model) == stacks + 100 * config.d_model
    assert {layer.attention.num_heads for layer in (*model.encoder.layers, *model.decoder.layers)} == {config.num_heads}
    rates = {m.rate for name, m in model.named_modules() if name.endswith(("residual.dropout", "embedder.dropout"))}
    assert rates == {config.dropout}


def test_the_default_is_the_base_of_the_paper() -> None:
    plain = TransformerConfig()
    assert plain == TransformerConfig(preset="base").model_copy(update={"preset": None})
    assert (plain.d_model, plain.d_ff, plain.num_heads, plain.dropout) == (512, 2048, 8, 0.1)
    assert (plain.encoder_layers, plain.decoder_layers) == (6, 6)
    kinds: list[Any] = [plain.residual, plain.positions, plain.feed_forward]
    assert [each.kind for each in kinds] == ["post", "sinusoidal", "relu"]


def test_a_key_beside_the_preset_wins() -> None:
    config = TransformerConfig(preset="tiny", d_ff=99, dropout=0.0)
    assert (config.d_model, config.d_ff, config.dropout) == (128, 99, 0.0)


def test_an_unknown_preset_is_refused() -> None:
    with pytest.raises(ConfigError, match='"tiny", "small", "base", "big" or null'):
        TransformerConfig(preset="huge")


def test_pre_norm_ends_both_stacks_with_a_norm() -> None:
    shape = {"preset": "tiny", "share_embeddings": "all"}
    extra = count(on_paper(TransformerConfig(**shape, residual="pre"))) - count(on_paper(TransformerConfig(**shape)))
    assert extra == 2 * 2 * 128


def test_the_gated_network_has_half_as_many_parameters_again() -> None:
    gated, plain = (
        on_paper(TransformerConfig(preset="tiny", feed_forward=kind)).get_submodule("encoder.layers.0.feed_forward")
        for kind in ("swiglu", "relu")
    )
    assert count(plain) == 2 * 128 * 256 + 256 + 128
    assert count(gated) == 3 * 128 * 256


def test_learned_positions_are_a_table_for_each_side() -> None:
    shape = {"preset": "tiny", "share_embeddings": "all"}
    learned = TransformerConfig(**shape, positions={"kind": "learned", "max_length": 50})
    assert count(on_paper(learned)) - count(on_paper(TransformerConfig(**shape))) == 2 * 50 * 128


def test_each_stack_has_its_own_depth() -> None:
    model = small_model(encoder_layers=3, decoder_layers=1)
    assert (len(model.encoder.layers), len(model.decoder.layers)) == (3, 1)
    assert count(model.encoder) == 3 * encoder_layer(16, 24)
    assert count(model.decoder) == decoder_layer(16, 24)


def test_shared_layers_are_one_layer_used_again_and_again() -> None:
    shared = small_model(encoder_layers=3, decoder_layers=2, share_layers=True)
    assert count(shared.encoder) == encoder_layer(16, 24)
    assert count(shared.decoder) == decoder_layer(16, 24)
    for stack, depth in ((shared.encoder, 3), (shared.decoder, 2)):
        used = list(stack.in_order())
        assert len(used) == depth
        assert all(layer is used[0] for layer in used)


def test_a_shared_layer_is_as_good_as_copies_of_it() -> None:
    shared = small_model(encoder_layers=3, decoder_layers=2, share_layers=True)
    unshared = small_model(1, encoder_layers=3, decoder_layers=2)
    weights = shared.state_dict()
    for name in unshared.state_dict():
        parts = name.split(".")
        if parts[1] == "layers":
            weights[name] = weights[".".join([*parts[:2], "0", *parts[3:]])]
    unshared.load_state_dict(weights)
    src = torch.randint(5, 20, (2, 6))
    keep = torch.ones_like(src, dtype=torch.bool)
    assert torch.equal(shared.states(src, keep, src), unshared.states(src, keep, src))


def embeddings(model: Transformer) -> tuple[torch.nn.Parameter, ...]:
    return model.src_embedder.tokens.weight, model.tgt_embedder.tokens.weight, output_matrix(model.head)


def test_all_embeddings_are_one_matrix() -> None:
    src, tgt, out = embeddings(small_model(share_embeddings="all"))
    assert src is tgt is out


def test_target_and_output_are_one_matrix() -> None:
    for sharing in ("target", None):
        src, tgt, out = embeddings(small_model(src_vocab=11, tgt_vocab=17, share_embeddings=sharing))
        assert tgt is out
        assert (src.shape, tgt.shape) == ((11, 16), (17, 16))


def test_three_matrices() -> None:
    model = small_model(src_vocab=11, tgt_vocab=17, share_embeddings="none")
    src, tgt, out = embeddings(model)
    assert (src.shape, tgt.shape, out.shape) == ((11, 16), (17, 16), (17, 16))
    assert tgt is not out
    assert count(model) == 2 * encoder_layer(16, 24) + 2 * decoder_layer(16, 24) + (11 + 17 + 17) * 16


def test_one_matrix_needs_one_vocabulary() -> None:
    with pytest.raises(ValueError, match="one vocabulary, not 11 and 17"):
        small_model(src_vocab=11, tgt_vocab=17, share_embeddings="all")


def test_embeddings_start_with_unit_variance_and_a_pad_row_of_zeros() -> None:
    torch.manual_seed(0)
    model = build_model(TransformerConfig(preset="tiny"), 500, 500, SPECIAL.pad)
    tokens = model.src_embedder.tokens
    assert not tokens.weight[SPECIAL.pad].any()
    vectors = tokens(torch.arange(1, 500)[None])
    assert abs(float(vectors.detach().std()) - 1) < 0.02
    tokens(torch.tensor([[SPECIAL.pad, 7]])).sum().backward()
    gradient = tokens.weight.grad
    assert gradient is not None
    assert not gradient[SPECIAL.pad].any()
    assert gradient[7].any()
