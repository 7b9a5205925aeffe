"""Settings of `objective` that mean nothing to a model."""

from collections.abc import Sequence

from qkv.objectives.teacher_forcing import ObjectiveConfig


def unused_settings(config: ObjectiveConfig, used: Sequence[str], model_kind: str) -> str | None:
    """A sentence on the first setting of `objective` that was changed and means nothing to the model."""
    plain = ObjectiveConfig()
    for name in type(config).model_fields:
        if name not in used and getattr(config, name) != getattr(plain, name):
            return f"objective.{name} does not go with model.kind {model_kind}; leave it out"
    return None
