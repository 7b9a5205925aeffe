"""Self-tests of what makes an accelerator fast: 16 bits in decoding, steps of fixed shapes, compiled code."""

import copy
import shutil

import torch

from qkv.core.devices import CPU
from qkv.engines.torch_engine import HALF, DecodingPrecision, TorchSettings
from qkv.functional.masks import build_mask, causal
from qkv.kernels.window import Window, window_attention
from qkv.layers.positions import Positions
from qkv.layers.positions.alibi import Alibi
from qkv.layers.positions.attention import attention_with_positions
from qkv.layers.positions.t5 import T5
from qkv.models.transformer.model import Transformer
from qkv.search.beam import BeamConfig
from qkv.search.models import ModelSteps
from qkv.text.special import SPECIAL
from qkv.training.doctor.subjects import CheckFailed, LearningModel, pairs, require_close, searched, subject
from qkv.training.step.compiled import COMPILERS, compile_model
from qkv.training.step.precision import Precision

SCORE_TOLERANCE: dict[DecodingPrecision, float] = {"bf16": 1e-1, "fp16": 2e-2}
"""How far the log-probabilities of the first tokens may be from those in float32 on the CPU."""
LOSS_TOLERANCE = 1e-3
SCORE_EQUAL = 1e-3
WINDOW_EQUAL = 1e-3
BIAS_EQUAL = 1e-2
"""The gradient of a bucket is a sum over thousands of pairs."""
SEARCH = BeamConfig(size=4, max_extra=4)


def half_precision(device: torch.device) -> str:
    """Scores with weights of 16 bits are near those of float32, and they are float32."""
    batch, said = pairs(8, 10), []
    wanted = _first_scores(subject(3).eval(), batch.src, batch.src_keep)
    for name, tolerance in SCORE_TOLERANCE.items():
        model = subject(3).eval().to(device, HALF[name])
        found = _first_scores(model, batch.src.to(device), batch.src_keep.to(device))
        if found.dtype != torch.float32:
            raise CheckFailed(f"{name}: scores are {found.dtype}, not float32")
        known = wanted.isfinite()
        off = float((found.cpu() - wanted)[known].abs().max())
        if not off <= tolerance:
            raise CheckFailed(f"{name}: log-probabilities are {off:.1e} away from those of float32 on the CPU")
        searched(subject(3).to(device).eval(), batch, SEARCH, TorchSettings(name))
        said.append(f"{name} {off:.0e} (at most {tolerance:.0e})")
    return "log-probabilities of models in 16 bits off by " + ", ".join(said)


def _first_scores(model: Transformer, src: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    """Log-probabilities of the first tokens."""
    steps = ModelSteps(model)
    return steps.step(torch.full((len(src),), SPECIAL.bos, device=src.device), steps.start(src, keep))[0].log_probs


def static_shapes(device: torch.device) -> str:
    """Steps of fixed shapes, on CUDA replayed as graphs, find what other steps find, also in a second batch."""
    model = subject(3).to(device).eval()
    for batch in (pairs(6, 10), pairs(5, 12, seed=2)):
        found, wanted = (searched(model, batch, SEARCH, TorchSettings(static_shapes=fixed)) for fixed in (True, False))
        if [one.tokens for one in found] != [one.tokens for one in wanted]:
            raise CheckFailed("beam search by steps of fixed shapes gives other outputs")
        scores, others = (torch.tensor([one.score for one in each]) for each in (found, wanted))
        require_close(scores, others, SCORE_EQUAL, "a score depends on fixed shapes")
    how = "replayed as CUDA graphs" if device.type == "cuda" else "without graphs on this device"
    return f"steps of fixed shapes, {how}, give the same outputs"


def windows(device: torch.device) -> str:
    """Attention in a window, by the kernel of the device, has the values and gradients of the CPU's."""
    generator = torch.Generator().manual_seed(1)
    drawn = [torch.randn(2, 2, 300, 32, generator=generator) for _ in range(4)]
    keep = torch.arange(300) < torch.tensor([[300], [210]])
    found, wanted = (_with_gradients(drawn, keep, where) for where in (device, CPU))
    for one, other in zip(found, wanted, strict=True):
        require_close(one, other, WINDOW_EQUAL, "attention in a window differs from the CPU's")
    return "attention in a window has the values and gradients of the CPU's"


def _with_gradients(drawn: list[torch.Tensor], keep: torch.Tensor, device: torch.device) -> list[torch.Tensor]:
    q, k, v = (part.to(device).requires_grad_() for part in drawn[:3])
    output = window_attention(q, k, v, Window(20, 5), keep.to(device))
    gradients = torch.autograd.grad((output * drawn[3].to(device)).sum(), (q, k, v))
    return [part.detach().cpu() for part in (output, *gradients)]


def biases(device: torch.device) -> str:
    """Attention with a bias of the distance, by the kernel of the device, has the values and gradients of the CPU's."""
    generator = torch.Generator().manual_seed(1)
    drawn = [torch.randn(2, 2, 300, 32, generator=generator) for _ in range(4)]
    for scheme in (T5(d_model=64, num_heads=2, causal=True), Alibi(num_heads=2)):
        found, wanted = (_with_bias(copy.deepcopy(scheme), drawn, where) for where in (device, CPU))
        for one, other in zip(found, wanted, strict=True):
            require_close(one, other, BIAS_EQUAL, f"attention with the bias of {type(scheme).__name__} differs")
    return "attention with a bias of T5 and ALiBi has the values and gradients of the CPU's"


def _with_bias(scheme: Positions, drawn: list[torch.Tensor], device: torch.device) -> list[torch.Tensor]:
    scheme, pos = scheme.to(device), torch.arange(300, device=device)
    q, k, v = (part.to(device).requires_grad_() for part in drawn[:3])
    output = attention_with_positions(scheme, q, k, v, build_mask(causal, pos, pos, None), pos, pos)
    wanted = (q, k, v, *scheme.parameters())
    gradients = torch.autograd.grad((output * drawn[3].to(device)).sum(), wanted)
    return [part.detach().cpu() for part in (output, *gradients)]


def compiled(device: torch.device) -> str:
    """Loss and gradient of compiled layers are those of others."""
    if device == CPU:
        return "not tried on a CPU, where it takes a minute; training.compile is for accelerators" + (
            "" if any(map(shutil.which, COMPILERS)) else " (and needs a C++ compiler, which is not installed)"
        )
    batch = pairs(16, 12)
    wanted = LearningModel(subject(), Precision("fp32", device)).learn(batch, 0.0)
    model = subject()
    compile_model(model.to(device), "layers")
    found = LearningModel(model, Precision("fp32", device)).learn(batch, 0.0)
    off = max(abs(one - other) / abs(other) for one, other in zip(found, wanted, strict=True))
    if not off <= LOSS_TOLERANCE:
        raise CheckFailed(f"compiled layers: loss and norm {found}, not compiled {wanted}: {off:.1e} apart")
    return f"loss and gradient of compiled layers off by {off:.0e} (at most {LOSS_TOLERANCE:.0e})"
