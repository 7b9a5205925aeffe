"""`qkv doctor`: it passes where all is well, and a fault is found, said and gives exit code 1."""

import json
from typing import Any

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

from qkv.cli.app import app
from qkv.training.doctor import checks
from qkv.training.doctor.checks import CHECKS


def report(*arguments: str) -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(app, ["doctor", "--device", "cpu", "--json", *arguments])
    return result.exit_code, json.loads(result.stdout)


def test_a_healthy_machine_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "SECONDS", 0.01)
    code, found = report()
    assert [check["name"] for check in found["checks"]] == list(CHECKS)
    assert all(check["passed"] for check in found["checks"]), found
    assert (code, found["passed"]) == (0, True)
    assert found["machine"]["device"] == "cpu"


def test_a_fault_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    monkeypatch.setattr(checks, "attention", careless)
    for name in set(CHECKS) - {"masks"}:
        monkeypatch.delitem(CHECKS, name)
    code, found = report()
    assert (code, found["passed"]) == (1, False)
    assert "attend to nothing" in found["checks"][0]["said"]
