"""A search knows a model by a protocol: importing one brings no model, no layer and no kernel with it."""

import subprocess
import sys

import pytest

HEAVY = ("qkv.models", "qkv.inference", "qkv.layers", "qkv.kernels", "qkv.engines")


@pytest.mark.parametrize("module", ["beam", "greedy", "sampling", "mbr", "length_penalty", "protocol"])
def test_a_search_imports_the_protocol_only(module: str) -> None:
    program = f"import sys, qkv.search.{module}; print(*(name for name in sys.modules if name.startswith({HEAVY})))"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert ended.stdout.split() == []
