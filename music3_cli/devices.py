"""The devices: which there are, what they have, and how their arithmetic is set. What fits: placement.py."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch

from music3_cli.errors import DeviceError
from music3_cli.kernels.settings import SharedSettings
from music3_cli.placement import DeviceMemory, host_memory

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}


def named_device(name: str, of: str = "device") -> torch.device:
    """`cpu`, `cuda` or `cuda:N`, here or on another machine.

    Args:
        of: what errors call it.

    Raises:
        DeviceError: another name.
    """
    kind, _, number = name.partition(":")
    if name != "cpu" and (kind != "cuda" or (number and not number.isdecimal())):
        raise DeviceError(f"{of} {name!r}: auto, cpu, cuda or cuda:N was expected")
    return torch.device("cpu") if name == "cpu" else torch.device("cuda", int(number or 0))


def resolve_device(name: str, of: str = "device") -> torch.device:
    """`auto` (CUDA where there is one), `cpu`, `cuda` or `cuda:N`.

    Args:
        of: what errors call it.

    Raises:
        DeviceError: unknown, or not there.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    device = named_device(name, of)
    if device.type == "cpu":
        return device
    if not torch.cuda.is_available():
        built = "this torch is built without CUDA" if torch.version.cuda is None else "no CUDA device was found"
        raise DeviceError(f"{of} {name}: {built}", hint="Use --device cpu, or install a driver and a torch with CUDA.")
    count = torch.cuda.device_count()
    if device.index >= count:
        raise DeviceError(f"{of} {name}: there {'is' if count == 1 else 'are'} only {count}, counted from 0")
    return device


def device_name(device: torch.device) -> str:
    """As people call it, for plans and sidecars."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


def default_talker_dtype(device: torch.device) -> str:
    """bf16 on a GPU; fp32 on a CPU, where bf16 is slow."""
    return "bf16" if device.type == "cuda" else "fp32"


def resolve_acoustic_devices(names: str, talker: torch.device) -> list[torch.device]:
    """Devices of the acoustic stage: a list such as `cuda:1` or `cuda:1,cuda:2`, `same` (the talker's), or `auto`:
    every other GPU where there is one, else the talker's own. One that stands twice counts once.

    Raises:
        DeviceError: one of them is unknown, not there, or of another kind than the talker's: a song's samples depend
            on the kind of device.
    """
    if names == "same":
        return [talker]
    if names == "auto":
        count = torch.cuda.device_count() if talker.type == "cuda" else 0
        return [torch.device("cuda", index) for index in range(count) if index != talker.index] or [talker]
    devices = [resolve_device(name.strip(), "acoustic device") for name in names.split(",")]
    for device in devices:
        if device.type != talker.type:
            raise DeviceError(f"acoustic device {device}: the talker's is {talker}, and both have to be of one kind")
    return list(dict.fromkeys(devices))


def device_memory(device: torch.device, limit_bytes: int | None = None) -> DeviceMemory:
    """What a device has now; at most `limit_bytes` of it."""
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        # Memory that torch holds but does not use is free as well.
        own = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        free += own
        taken = torch.cuda.memory_allocated(device)
    else:
        (free, total), taken = host_memory(), 0
    if limit_bytes is not None:
        total = min(total, limit_bytes) if total else limit_bytes
        free = min(free, limit_bytes - taken) if free else limit_bytes - taken
    return DeviceMemory(str(device), device_name(device), max(0, free), total)


def limit_memory(device: torch.device, limit_bytes: int) -> None:
    """Let torch take no more than this of a GPU: what is beyond is out of memory, as on a smaller card."""
    if device.type == "cuda":
        total = torch.cuda.mem_get_info(device)[1]
        torch.cuda.set_per_process_memory_fraction(min(1.0, limit_bytes / total), device)


URGENT = -1
"""A CUDA stream's priority: what waits there goes before what waits on other streams."""


@contextmanager
def on_device(device: torch.device, own_stream: bool = False, priority: int = 0) -> Iterator[None]:
    """Inside, this thread's kernels go to `device`, on a stream of their own if wanted."""
    if device.type != "cuda":
        yield
        return
    with (
        torch.cuda.device(device),
        torch.cuda.stream(torch.cuda.Stream(device, priority)) if own_stream else nullcontext(),
    ):
        yield


_CAPTURES = threading.Lock()


@contextmanager
def capturing(graph: torch.cuda.CUDAGraph, stream: torch.cuda.Stream, pool: Any = None) -> Iterator[None]:
    """Inside, what this thread launches goes into `graph`. Other threads may use the device meanwhile, on streams of
    their own; captures wait for each other: each begins by waiting for the whole device, which must not capture then.

    Args:
        stream: of the graph's device; torch's own stream for captures is one for all threads and devices.
    """
    with _CAPTURES, torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
        yield


def to_host(x: torch.Tensor) -> tuple[torch.Tensor, torch.cuda.Event | None]:
    """A copy of `x` in host memory, and an event behind the copying; None where it is whole already."""
    if not x.is_cuda:
        return x.clone(), None
    copy = torch.empty(x.shape, dtype=x.dtype, pin_memory=True).copy_(x, non_blocking=True)
    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream(x.device))
    return copy, event


def arithmetic(tf32: bool) -> AbstractContextManager[None]:
    """Inside, float32 products and convolutions are TF32 (where the device has it) or true float32; convolutions are
    repeatable, and half-precision products add up in float32.

    The settings are the process's, and its own again behind it. Threads that want the same share them; one that wants
    others waits until nobody is inside.
    """
    return _ARITHMETIC.held(tf32, lambda: _set_arithmetic(tf32))


_ARITHMETIC = SharedSettings()


@contextmanager
def _set_arithmetic(tf32: bool) -> Iterator[None]:
    """`arithmetic` for the process as a whole, whichever of torch's two interfaces it was set with."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    convolutions = cudnn.conv  # type: ignore[attr-defined]
    # For products torch keeps a legacy value and a new one. They are set by the legacy interface, which sets both,
    # because torch's compiler reads it, and which torch refuses to read where the two differ.
    legacy = _legacy_precision()
    before = [
        (matmul, "fp32_precision", matmul.fp32_precision),
        (matmul, "allow_fp16_reduced_precision_reduction", matmul.allow_fp16_reduced_precision_reduction),
        (convolutions, "fp32_precision", convolutions.fp32_precision),
        (cudnn, "deterministic", cudnn.deterministic),
        (cudnn, "benchmark", cudnn.benchmark),
    ]
    try:
        matmul.allow_tf32 = tf32
        matmul.allow_fp16_reduced_precision_reduction = False
        convolutions.fp32_precision = "tf32" if tf32 else "ieee"
        cudnn.deterministic, cudnn.benchmark = True, False
        yield
    finally:
        matmul.allow_tf32 = legacy != "highest"
        if legacy == "medium":  # which the line above cannot give back
            torch.set_float32_matmul_precision(legacy)
        for owner, name, value in before:
            setattr(owner, name, value)


def _legacy_precision() -> str:
    """`highest`, `high` or `medium`."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:  # it is not what the new interface says
        return "highest" if torch.backends.cuda.matmul.fp32_precision == "tf32" else "high"


def true_fp32() -> AbstractContextManager[None]:
    """`arithmetic` without TF32."""
    return arithmetic(tf32=False)
