"""Whether int8 products saturate on this processor, and what to do about it.

oneDNN multiplies bytes in pairs and adds each pair up in 16 bits. With VNNI instructions the sum has 32 bits; without
them a large one is cut off ("saturates"), and what a model says may become noise. Intel MKL is not affected.
"""

import os
import platform
from pathlib import Path

USE_MKL = "CT2_USE_MKL"
"""CTranslate2 reads it when it is first imported: 1 for Intel MKL, 0 for oneDNN; by default MKL on Intel processors."""
WITHOUT_VNNI = ("SSE41", "AVX", "AVX2", "AVX512_CORE")
"""Values of ONEDNN_MAX_CPU_ISA by which oneDNN leaves the instructions unused, though the processor may have them."""


def sums_are_exact(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether oneDNN and ONNX Runtime add up int8 products without saturation here; False also where nobody knows."""
    if os.environ.get("ONEDNN_MAX_CPU_ISA", "").upper() in WITHOUT_VNNI:
        return False
    try:
        return "vnni" in cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


def choose_backend(cpuinfo: Path = Path("/proc/cpuinfo")) -> None:
    """Let CTranslate2 use Intel MKL where oneDNN saturates. To be called before anything imports `ctranslate2`.

    What the user has set stays. Only packages for Linux on x86 are known to hold MKL.
    """
    has_mkl = platform.system() == "Linux" and platform.machine() == "x86_64"
    if has_mkl and USE_MKL not in os.environ and not sums_are_exact(cpuinfo):
        os.environ[USE_MKL] = "1"
