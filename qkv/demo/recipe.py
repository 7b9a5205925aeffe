"""What the demonstration trains."""

from pathlib import Path

from qkv.config import Period
from qkv.core.devices import choose_device, multiplies_in_bfloat16
from qkv.data.config import BatchConfig, PairsConfig
from qkv.data.readers import TsvCorpus
from qkv.models.transformer.config import TransformerConfig
from qkv.text import CharacterConfig, TextConfig, WhitespaceConfig
from qkv.training.optimizers.adamw import AdamWConfig
from qkv.training.optimizers.muon import MuonConfig
from qkv.training.recipe import Recipe, TrainingConfig, ValidationConfig
from qkv.training.schedules import LinearConfig


def demo_recipe(folder: Path, run: Path, minutes: float) -> Recipe:
    """A small model, small batches, and a learning rate that falls to zero when the time is up.

    A few passes over the dictionary are no danger of overfitting: dropout would only slow the learning down. Muon
    learns more from an update, but takes too much of it where products in bfloat16 are not fast.
    """
    fast = multiplies_in_bfloat16(choose_device("auto"))
    sizes = {"preset": "tiny", "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.0, "residual": "pre"}
    return Recipe(
        run=run,
        data=PairsConfig(root=folder, train=(TsvCorpus(path=Path("train.tsv")),), dev=TsvCorpus(path=Path("dev.tsv"))),
        text=TextConfig(src=CharacterConfig(), tgt=WhitespaceConfig()),
        batch=BatchConfig(tokens=2048 if fast else 1024),
        model=TransformerConfig.model_validate(sizes),
        optimizer=MuonConfig() if fast else AdamWConfig(),
        schedule=LinearConfig(peak=3e-3, warmup=200),
        training=TrainingConfig(
            stop_after=Period(minutes, "minutes"), workers="auto", precision="bf16" if fast else "fp32"
        ),
        validation=ValidationConfig(
            every=Period(minutes / 2, "minutes"), metrics=["g2p_wer", "per"], best="per", max_sources=1000
        ),
    )
