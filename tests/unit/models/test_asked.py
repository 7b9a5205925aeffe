"""A verb refuses a model that is asked for something else, with what that kind of model says of itself."""

from typing import ClassVar, Literal

import pytest

from qkv.core.errors import UsageError
from qkv.models.asked import require_asked, require_seq2seq
from qkv.models.config import ModelConfig
from qkv.models.kinds import models


class Ranker(ModelConfig):
    """Of another package, for something that no verb here asks for."""

    asked: ClassVar[str] = "rank"
    answered_by: ClassVar[str] = "rank MODEL orders documents"

    kind: Literal["ranker"] = "ranker"
    d_model: int = 8


def test_a_kind_of_another_package_is_refused_in_its_own_words() -> None:
    for refuse in (lambda: require_asked(Ranker(), "label", "runs/a"), lambda: require_seq2seq(Ranker(), "runs/a")):
        with pytest.raises(UsageError, match=r"^runs/a: is a model of the kind ranker: rank MODEL orders documents$"):
            refuse()
    require_asked(Ranker(), "rank", "runs/a")


def test_every_kind_here_names_its_command() -> None:
    assert [kind for kind in models.names() if not models[kind].answered_by.startswith("qkv ")] == []
