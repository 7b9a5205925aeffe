"""What is said of the device that a command uses."""

import torch

from qkv.core.devices import say_where


def test_only_an_accelerator_is_spoken_of() -> None:
    said: list[str] = []
    for device in ("cpu", "meta"):
        say_where(said.append, "decoding", torch.device(device))
    assert said == ["decoding on meta"]
