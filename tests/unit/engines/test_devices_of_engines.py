"""Which engine runs on which device: a sentence where one cannot."""

import pytest
import torch

from qkv.engines.fast_engines import CTranslate2, OnnxRuntime


def test_what_runs_nowhere_else() -> None:
    assert OnnxRuntime().reason_against_device(torch.device("cpu")) is None
    assert OnnxRuntime().reason_against_device(torch.device("cuda", 1)) == (
        "it does not run on the device cuda:1; use the engine torch, or the device cpu"
    )
    assert "the device mps" in str(CTranslate2().reason_against_device(torch.device("mps")))


@pytest.mark.parametrize(("found", "wanted", "runs"), [(0, 0, False), (1, 0, True), (1, 1, False), (2, 1, True)])
def test_ctranslate2_has_its_own_view_of_cuda_devices(
    found: int, wanted: int, runs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It brings its own libraries, so PyTorch may have a device that it has not."""
    monkeypatch.setattr("ctranslate2.get_cuda_device_count", lambda: found)
    assert CTranslate2().reason_against_device(torch.device("cpu")) is None
    reason = CTranslate2().reason_against_device(torch.device("cuda", wanted))
    assert (reason is None) == runs
    if reason is not None:
        assert f"its CUDA libraries find {found} devices here, so it does not run on cuda:{wanted}" in reason
