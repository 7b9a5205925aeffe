"""int8 in CTranslate2: the backend that does not saturate is chosen, unless the user has chosen."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from qkv.export.int8 import USE_MKL, choose_backend, sums_are_exact

ON_LINUX_X86 = platform.system() == "Linux" and platform.machine() == "x86_64"
FLAGS = {"avx2 avx512f": False, "avx2 avx_vnni": True, "avx512f avx512_vnni amx_int8": True}


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Nothing chosen; what a test sets is taken back."""
    for name in (USE_MKL, "ONEDNN_MAX_CPU_ISA"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return monkeypatch


def processor(folder: Path, flags: str) -> Path:
    path = folder / "cpuinfo"
    path.write_text(f"processor\t: 0\nflags\t\t: fpu {flags}\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(("flags", "exact"), FLAGS.items())
def test_sums_are_exact_with_vnni(flags: str, exact: bool, tmp_path: Path, environment: pytest.MonkeyPatch) -> None:
    cpuinfo = processor(tmp_path, flags)
    assert sums_are_exact(cpuinfo) == exact
    environment.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    assert not sums_are_exact(cpuinfo)
    environment.setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_VNNI")
    assert sums_are_exact(cpuinfo) == exact
    assert not sums_are_exact(tmp_path / "nowhere")


@pytest.mark.parametrize(("flags", "exact"), FLAGS.items())
def test_mkl_is_chosen_where_it_is_needed(
    flags: str, exact: bool, tmp_path: Path, environment: pytest.MonkeyPatch
) -> None:
    cpuinfo = processor(tmp_path, flags)
    choose_backend(cpuinfo)
    assert os.environ.get(USE_MKL) == (None if exact or not ON_LINUX_X86 else "1")
    for chosen in ("0", "1"):
        environment.setenv(USE_MKL, chosen)
        choose_backend(cpuinfo)
        assert os.environ[USE_MKL] == chosen


PROGRAM = """
from pathlib import Path
from qkv.engines.fast_engines import CTranslate2, make_engine
from tests.support.exported import decided_model
make_engine(CTranslate2(), decided_model(), 1)
import ctranslate2
print("int16" in ctranslate2.get_supported_compute_types("cpu"))
"""


@pytest.mark.skipif(not ON_LINUX_X86, reason="CTranslate2 has MKL in its packages for Linux on x86 only")
@pytest.mark.parametrize(("chosen", "used"), [(None, True), ("0", False)])
def test_ctranslate2_runs_with_the_backend_that_was_chosen(chosen: str | None, used: bool) -> None:
    """It must be chosen before the package is imported anywhere. Only MKL has int16: by that one sees which it is."""
    given = {name: value for name, value in os.environ.items() if name != USE_MKL}
    given |= {"ONEDNN_MAX_CPU_ISA": "AVX2"} | ({} if chosen is None else {USE_MKL: chosen})
    ended = subprocess.run([sys.executable, "-c", PROGRAM], env=given, capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == str(used)
