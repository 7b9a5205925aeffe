"""A second device without hardware: tensors that say they are elsewhere, hold real values and refuse to mix.

Inside `pretended_device()`, `tensor.to(ELSEWHERE)` gives a tensor whose device is `meta` and whose values are kept
beside it on the CPU. Operations compute on those values. As on an accelerator, an operation that is given a tensor from
elsewhere and one from the CPU (with one dimension or more) fails, a generator of the CPU draws nothing there, and
`numpy()` is refused; whatever makes the host wait for a value is counted.
"""

import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode

ELSEWHERE = torch.device("meta")
CPU = torch.device("cpu")
PACKAGE = "/qkv/"
WAITS = {"_local_scalar_dense", "equal", "nonzero", "masked_select", "_unique2", "unique_dim", "is_nonzero"}
WAITS |= {"repeat_interleave"}
"""Operations whose result, or its shape, the host has to wait for."""
INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_"}
"""The same where an index is a mask."""
MOVES = {"_to_copy", "copy_"}
Listed = (list, np.ndarray)
BY_HOST_LENGTHS = {"_pack_padded_sequence", "_pad_packed_sequence"}
"""Operations of packed sequences: their lengths are on the CPU wherever the sequences are."""


class PretendedTensor(torch.Tensor):
    """A tensor elsewhere; `held` has its values, on the CPU."""

    held: Tensor

    @staticmethod
    def __new__(cls, values: Tensor) -> "PretendedTensor":
        made: PretendedTensor = cls._make_wrapper_subclass(
            cls,
            values.shape,
            strides=values.stride(),
            storage_offset=values.storage_offset(),
            dtype=values.dtype,
            device=ELSEWHERE,
        )
        made.held = values
        return made

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # the stubs have no func
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return _compute(func, args, kwargs or {}, None)


class MixedDevices(RuntimeError):
    """Tensors of two devices met."""


class Waits(Counter[str]):
    """How often the host waited for the device, by operation and line of the package."""

    def add_one(self, name: str) -> None:
        frame = inspect.currentframe()
        while frame is not None and PACKAGE not in frame.f_code.co_filename:
            frame = frame.f_back
        line = "" if frame is None else f" {frame.f_code.co_filename.split(PACKAGE)[-1]}:{frame.f_lineno}"
        self[name + line] += 1


def _tensors(given: Any) -> list[Tensor]:
    if isinstance(given, Tensor):
        return [given]
    return [each for part in given for each in _tensors(part)] if isinstance(given, list | tuple) else []


def _plain(given: Any) -> Any:
    if isinstance(given, PretendedTensor):
        return given.held
    return type(given)(map(_plain, given)) if isinstance(given, list | tuple) else given


def _compute(func: Any, args: Any, kwargs: dict[str, Any], waits: Waits | None) -> Any:
    """`func` on the values; the results are where the inputs were, or where `device` says."""
    name = func.name().removeprefix("aten::").split(".")[0]
    given = _tensors([args, list(kwargs.values())])
    wrapped = {id(each.held): each for each in given if isinstance(each, PretendedTensor)}
    elsewhere = bool(wrapped)
    here = [each for each in given if not isinstance(each, PretendedTensor) and each.dim() > 0]
    if elsewhere and here and name not in MOVES | BY_HOST_LENGTHS:
        raise MixedDevices(f"{func}: " + ", ".join(f"{each.device}{list(each.shape)}" for each in given))
    if (device := kwargs.get("device")) is not None:
        elsewhere = torch.device(device).type == ELSEWHERE.type
    elif name == "copy_":
        elsewhere = isinstance(args[0], PretendedTensor)
    if elsewhere and isinstance(kwargs.get("generator"), torch.Generator):
        raise MixedDevices(f"{func}: a generator of the CPU")
    if waits is not None and wrapped and _waits(name, args, elsewhere):
        waits.add_one(name)
    values = {key: _plain(value) for key, value in kwargs.items()}
    found = func(*_plain(args), **values | ({"device": CPU} if device is not None else {}))
    if not elsewhere:
        return found
    if torch.Tag.inplace_view in func.tags:
        # `squeeze_` and the like: what the tensor says of its shape changes with its values.
        with no_dispatch():
            func(*args, **kwargs)
    if name in BY_HOST_LENGTHS:
        return PretendedTensor(found[0]), found[1]
    return _wrapped(found, wrapped)


def _wrapped(found: Any, known: dict[int, PretendedTensor]) -> Any:
    if isinstance(found, Tensor):
        # What was changed in place is the tensor that was given.
        return known[id(found)] if id(found) in known else PretendedTensor(found)
    return type(found)(_wrapped(each, known) for each in found) if isinstance(found, list | tuple) else found


def _waits(name: str, args: Any, elsewhere: bool) -> bool:
    to_host = name in MOVES and not elsewhere
    by_mask = name in INDEXING and any(index.dtype == torch.bool for index in _tensors(args[1]))
    return name in WAITS or to_host or by_mask


class _Operations(TorchDispatchMode):
    """What is made elsewhere has values, and what moves between the two keeps them."""

    def __init__(self, waits: Waits) -> None:
        super().__init__()
        self.waits = waits

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _compute(func, args, kwargs or {}, self.waits)


class _Calls(TorchFunctionMode):
    """What never gets to an operation as it was written: literals, and lists of values."""

    def __init__(self, waits: Waits) -> None:
        super().__init__()
        self.waits = waits

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in (torch.tensor, torch.as_tensor, torch.Tensor.new_tensor):
            return self._literal(func, args, kwargs)
        if args and isinstance(args[0], PretendedTensor):
            if func is torch.Tensor.tolist:
                self.waits.add_one("tolist")
                return args[0].held.tolist()
            if func in (torch.Tensor.numpy, torch.Tensor.__array__):
                raise TypeError("can't convert a tensor elsewhere to numpy; use Tensor.cpu() first")
            if func in (torch.Tensor.__getitem__, torch.Tensor.__setitem__):
                args = (args[0], _moved_index(args[1]), *args[2:])
        return func(*args, **kwargs)

    def _literal(self, func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        device = kwargs.pop("device", None)
        if func is torch.Tensor.new_tensor:
            device = args[0].device if device is None else device
            kwargs.setdefault("dtype", args[0].dtype)
            func, args = torch.tensor, args[1:]
        made = func(*args, **kwargs)
        return made if device is None or isinstance(made, PretendedTensor) else made.to(device)


def _moved_index(index: Any) -> Any:
    """A list of numbers as an index goes to the device by itself."""
    if isinstance(index, tuple):
        return tuple(_moved_index(part) for part in index)
    return torch.from_numpy(np.array(index, dtype=np.int64)).to(ELSEWHERE) if isinstance(index, Listed) else index


@contextmanager
def pretended_device() -> Iterator[Waits]:
    """Context in which ELSEWHERE is a device with values; gives the count of what the host waits for."""
    waits = Waits()
    before = torch.__future__.get_swap_module_params_on_conversion()
    # As on a real device, a parameter that moves stays the same object: those that are shared stay shared.
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        with _Operations(waits), _Calls(waits), _without_inference_mode():
            yield waits
    finally:
        torch.__future__.set_swap_module_params_on_conversion(before)


@contextmanager
def _without_inference_mode() -> Iterator[None]:
    """Wrapped tensors cannot be inference tensors; without gradients they can be."""

    def enter(mode: Any) -> None:
        mode.kept = torch.is_grad_enabled()
        torch.set_grad_enabled(False)

    def leave(mode: Any, *_: Any) -> None:
        torch.set_grad_enabled(mode.kept)

    with mock.patch.multiple(torch.inference_mode, __enter__=enter, __exit__=leave):
        yield


def values_of(tensor: Tensor) -> Tensor:
    """The values of a tensor elsewhere, which it must be."""
    assert isinstance(tensor, PretendedTensor), "it is not elsewhere"
    return tensor.held
