"""What runs where: the device, its dtypes, and how much fits into its memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import torch

from music3_cli.checkpoint import memory
from music3_cli.checkpoint.inventory import Checkpoint
from music3_cli.checkpoint.memory import ACOUSTIC_WORK_BYTES
from music3_cli.errors import DeviceError

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}


def resolve_device(name: str) -> torch.device:
    """`auto` (CUDA where there is one), `cpu`, `cuda` or `cuda:N`.

    Raises:
        DeviceError: unknown, or not there.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cpu":
        return torch.device("cpu")
    kind, _, number = name.partition(":")
    if kind != "cuda" or (number and not number.isdecimal()):
        raise DeviceError(f"device {name!r}: auto, cpu, cuda or cuda:N was expected")
    if not torch.cuda.is_available():
        built = "this torch is built without CUDA" if torch.version.cuda is None else "no CUDA device was found"
        raise DeviceError(
            f"device {name}: {built}", hint="Use --device cpu, or install a driver and a torch with CUDA."
        )
    index, count = int(number or 0), torch.cuda.device_count()
    if index >= count:
        raise DeviceError(f"device {name}: there {'is' if count == 1 else 'are'} only {count}, counted from 0")
    return torch.device("cuda", index)


def device_name(device: torch.device) -> str:
    """As people call it, for plans and sidecars."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


def default_talker_dtype(device: torch.device) -> str:
    """bf16 on a GPU; fp32 on a CPU, where bf16 is slow."""
    return "bf16" if device.type == "cuda" else "fp32"


def talker_bytes(checkpoint: Checkpoint, dtype: torch.dtype) -> int:
    """Device memory of the talker's weights: of embedding and head only the rows that are used."""
    return memory.talker_bytes(checkpoint.components, checkpoint.architecture, dtype.itemsize)


def acoustic_bytes(checkpoint: Checkpoint) -> int:
    """Device memory of the acoustic stage's weights, float32."""
    return memory.acoustic_bytes(checkpoint.components)


def check_memory(checkpoint: Checkpoint, device: torch.device, dtype: torch.dtype, positions: int) -> None:
    """Refuse before loading what cannot fit: all weights resident and one song of `positions`.

    Raises:
        DeviceError: with what is missing. Only CUDA devices are checked.
    """
    if device.type != "cuda":
        return
    free, _ = torch.cuda.mem_get_info(device)
    cache = memory.cache_bytes(checkpoint.architecture.backbone, positions, dtype.itemsize)
    needed = talker_bytes(checkpoint, dtype) + acoustic_bytes(checkpoint) + cache + ACOUSTIC_WORK_BYTES
    if needed > free:
        raise DeviceError(
            f"device {device}: {needed / 2**30:.1f} GiB are needed, {free / 2**30:.1f} GiB are free "
            f"({(needed - free) / 2**30:.1f} GiB missing)",
            hint="End other programs on this GPU, shorten --max-duration, or use --device cpu.",
        )


def songs_that_fit(bytes_a_song: int, device: torch.device, most: int) -> int:
    """How many songs may hold their caches and frames at once: at least one, at most `most`."""
    if device.type != "cuda":
        return most
    free, _ = torch.cuda.mem_get_info(device)
    # Memory that torch holds but does not use is free as well.
    free += torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device) - ACOUSTIC_WORK_BYTES
    # A finished song's frames stay until they are sound, so one song more than the slots is counted.
    return max(1, min(most, free // bytes_a_song - 1))


@contextmanager
def arithmetic(tf32: bool) -> Iterator[None]:
    """Inside, float32 products and convolutions are TF32 (where the device has it) or true float32; convolutions are
    repeatable, and half-precision products add up in float32.

    The settings are the process's own before and after, whichever of torch's two interfaces they were made with.
    """
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
