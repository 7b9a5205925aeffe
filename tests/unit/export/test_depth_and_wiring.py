"""No format has another depth or wiring than the paper's: each is refused by name."""

from collections.abc import Callable

import pytest

from qkv.export import ctranslate2, huggingface
from qkv.models.saved.folder import SavedConfig
from qkv.models.transformer.config import TransformerConfig
from qkv.models.transformer.stacks import stacks
from qkv.models.transformer.wirings import wirings
from tests.support.small import small_text

OTHERS = [
    *(("stack", kind) for kind in stacks.names() if kind != "layers"),
    *(("wiring", kind) for kind in wirings.names() if kind != "last"),
]


@pytest.mark.parametrize(("part", "kind"), OTHERS)
@pytest.mark.parametrize(
    ("name", "obstacles"),
    [("CTranslate2", ctranslate2.ctranslate2_obstacles), ("Hugging Face", huggingface.huggingface_obstacles)],
)
def test_it_is_refused_by_name(name: str, obstacles: Callable[[SavedConfig], list[str]], part: str, kind: str) -> None:
    model = TransformerConfig.model_validate({part: kind, "residual": "pre"})
    config = SavedConfig(model=model, text=small_text()[0])
    assert obstacles(config) == [f"{name} has no form of model.{part}.kind {kind}"]
    assert obstacles(config.model_copy(update={"model": TransformerConfig(residual="pre")})) == []
