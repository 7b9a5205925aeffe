"""The Vision Transformer against that of transformers with copied weights, also at an interpolated size."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import ViTConfig, ViTForImageClassification, ViTModel

from qkv.core.errors import UsageError
from qkv.export.importing.folder import import_model
from qkv.layers.attention.recording import capture_attention
from qkv.models.saved.folder import load_model
from qkv.models.vision.classifier import Pooling, VisionTransformer
from qkv.models.vision.model import VisionModel

SIZE, PATCH, CHANNELS, CLASSES, LAYERS = 8, 2, 3, 5, 2
WIDTHS: dict[str, Any] = {"d_model": 32, "num_heads": 4, "d_ff": 48}
PARTS = {
    "attention.query": "attention.q_proj",
    "attention.key": "attention.k_proj",
    "attention.value": "attention.v_proj",
    "attention.output": "attention.o_proj",
    "attention_residual.norm": "layernorm_before",
    "feed_forward_residual.norm": "layernorm_after",
    "feed_forward.inner": "mlp.fc1",
    "feed_forward.outer": "mlp.fc2",
}
"""Our names of a layer's parts, and theirs."""


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def theirs() -> ViTForImageClassification:
    torch.manual_seed(0)
    config = ViTConfig(image_size=SIZE, patch_size=PATCH, num_channels=CHANNELS)
    config.hidden_size, config.num_attention_heads, config.intermediate_size = WIDTHS.values()
    config.num_hidden_layers, config.layer_norm_eps, config.num_labels = LAYERS, 1e-5, CLASSES
    model = ViTForImageClassification(config).eval()
    for parameter in model.parameters():  # the biases, too, which are zero at first
        nn.init.normal_(parameter, std=0.3)
    return model


@pytest.fixture(scope="module")
def ours(theirs: ViTForImageClassification) -> VisionTransformer:
    """The same model, built from our blocks."""
    model = VisionTransformer((SIZE, SIZE), CHANNELS, PATCH, CLASSES, num_layers=LAYERS, **WIDTHS).eval()
    given = dict(theirs.state_dict())
    embeddings = "vit.embeddings"
    copied = {
        "embedding.project.weight": given[f"{embeddings}.patch_embeddings.projection.weight"].flatten(1),
        "embedding.project.bias": given[f"{embeddings}.patch_embeddings.projection.bias"],
        "embedding.class_token": given[f"{embeddings}.cls_token"][0, 0],
        "embedding.positions": given[f"{embeddings}.position_embeddings"][0],
    }
    for part in ("weight", "bias"):
        copied[f"head.{part}"] = given[f"classifier.{part}"]
        copied[f"encoder.stack.final.{part}"] = given[f"vit.layernorm.{part}"]
        for layer in range(LAYERS):
            for own, other in PARTS.items():
                copied[f"encoder.stack.layers.{layer}.{own}.{part}"] = given[f"vit.layers.{layer}.{other}.{part}"]
    model.load_state_dict(copied)
    return model


@torch.no_grad()
def test_logits_and_states_are_those_of_transformers(
    ours: VisionTransformer, theirs: ViTForImageClassification
) -> None:
    images = draw(3, CHANNELS, SIZE, SIZE)
    torch.testing.assert_close(ours(images), theirs(images).logits, rtol=0, atol=1e-5)
    last = theirs.vit(images).last_hidden_state
    torch.testing.assert_close(ours.states(images), last, rtol=0, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize(("height", "width"), [(12, 12), (4, 4), (8, 14), (16, 6)])
def test_also_at_another_size(
    ours: VisionTransformer, theirs: ViTForImageClassification, height: int, width: int
) -> None:
    images = draw(2, CHANNELS, height, width)
    wanted = theirs(images, interpolate_pos_encoding=True).logits
    torch.testing.assert_close(ours(images), wanted, rtol=0, atol=1e-5)


@torch.no_grad()
def test_attention_over_the_image_is_recorded(ours: VisionTransformer) -> None:
    with capture_attention(ours) as record:
        ours(draw(2, CHANNELS, SIZE, SIZE))
    weights = record[f"encoder.stack.layers.{LAYERS - 1}.attention"]
    assert weights.shape == (2, 4, 17, 17)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(2, 4, 17))


@torch.no_grad()
@pytest.mark.parametrize("pooling", ["class_token", "mean"])
def test_an_image_does_not_depend_on_its_batch_and_a_new_model_prefers_no_class(pooling: Pooling) -> None:
    torch.manual_seed(0)
    model = VisionTransformer((4, 6), 1, 2, 7, num_layers=1, pooling=pooling, **WIDTHS).eval()
    images = draw(3, 1, 4, 6)
    assert torch.equal(model(images), torch.zeros(3, 7))
    nn.init.normal_(model.head.weight)
    alone = torch.cat([model(image[None]) for image in images])
    torch.testing.assert_close(model(images), alone, rtol=0, atol=1e-5)
    assert model.states(images).shape == (3, 6 + (pooling == "class_token"), 32)


@torch.no_grad()
@pytest.mark.parametrize("biased", [True, False])
def test_vit_is_imported(tmp_path: Path, biased: bool) -> None:
    names = {0: "cat", 1: "dog", 2: "fish"}
    config = ViTConfig(image_size=SIZE, patch_size=PATCH, num_channels=CHANNELS, qkv_bias=biased, id2label=names)
    config.hidden_size, config.num_attention_heads, config.intermediate_size = WIDTHS.values()
    config.num_hidden_layers, config.layer_norm_eps = LAYERS, 1e-3
    torch.manual_seed(1)
    model = ViTForImageClassification(config).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(tmp_path / "theirs")
    import_model(tmp_path / "theirs", tmp_path / "ours")
    saved = load_model(tmp_path / "ours")
    assert saved.config.labels == list(names.values())
    assert isinstance(saved.model, VisionModel)
    images = draw(3, CHANNELS, SIZE, SIZE)
    torch.testing.assert_close(saved.model.classifier(images), model(images).logits, rtol=0, atol=1e-5)


def test_a_vit_that_reads_other_pixels_or_names_no_class_is_refused(tmp_path: Path) -> None:
    config = ViTConfig(image_size=SIZE, patch_size=PATCH, hidden_size=8, num_attention_heads=2, num_hidden_layers=1)
    ViTModel(config).save_pretrained(tmp_path / "headless")
    with pytest.raises(UsageError, match="headless: a ViT without a classifier names no classes"):
        import_model(tmp_path / "headless", tmp_path / "ours")
    ViTForImageClassification(config).save_pretrained(tmp_path / "theirs")
    (tmp_path / "theirs" / "preprocessor_config.json").write_text('{"image_mean": [0.4, 0.5, 0.5]}')
    with pytest.raises(UsageError, match=r"preprocessor_config.json: image_mean \[0.4, 0.5, 0.5\] cannot be imported"):
        import_model(tmp_path / "theirs", tmp_path / "ours")
    assert not (tmp_path / "ours").exists()
