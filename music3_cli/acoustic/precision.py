"""What `--precision` means on a device: which arithmetic each part of the acoustic stage uses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

import torch
from torch.nn.attention import SDPBackend

from music3_cli.devices import arithmetic
from music3_cli.kernels.settings import attention_by
from music3_cli.kernels.tf32 import rounding_pays
from music3_cli.kernels.triton_support import kernels_work
from music3_cli.models.transformer import BlockDtypes

WIDER = {"fp16": "tf32", "tf32": "fp32"}
"""The policy with which a window is solved again that has values which are no numbers."""


@dataclass(frozen=True)
class Precision:
    """A policy on one device.

    Attributes:
        name: as asked for.
        arithmetic: what the device really does; `fp32` for `tf32` where there is no TF32.
        tf32: products and convolutions of float32 tensors use TF32.
        dtypes: of the transformer's blocks.
        flash: torch's attention is the flash kernel, which repeats bit for bit; where ours runs there is no need.
    """

    name: str
    arithmetic: str
    tf32: bool
    dtypes: BlockDtypes
    flash: bool

    @contextmanager
    def policy(self) -> Iterator[None]:
        """Inside, torch computes by this policy; the process's settings are its own again behind it."""
        with ExitStack() as stack:
            stack.enter_context(arithmetic(self.tf32))
            if self.flash:
                stack.enter_context(attention_by(SDPBackend.FLASH_ATTENTION))
            yield


def precision_on(name: str, device: torch.device) -> Precision:
    """The policy called `name` (`fp32`, `tf32` or `fp16`) on a device.

    TF32 and the flash kernel need a GPU of compute capability 8.0 or more. Elsewhere `tf32` is float32, and `fp16` is
    float16 products with all else in float32.
    """
    capable = device.type == "cuda" and torch.version.hip is None and torch.cuda.get_device_capability(device) >= (8, 0)
    flash = capable and not kernels_work()
    half, single = torch.float16, torch.float32
    if name == "fp16":
        return Precision(name, "fp16", capable, BlockDtypes(half, half), flash)
    if name == "tf32" and capable:
        rounds = rounding_pays(device)
        return Precision(name, "tf32", True, BlockDtypes(single, half, rounds, rounds), flash)
    return Precision(name, "fp32", False, BlockDtypes(), False)


def wider(precision: Precision, device: torch.device) -> Precision | None:
    """The next policy with a greater range of values; None for float32.

    Behind TF32 the matrices stay rounded to TF32 where they are: they may be held so, and a window that is solved again
    must not depend on it.
    """
    name = WIDER.get(precision.name)
    if name is None or precision.arithmetic == "fp32":
        return None
    wide = precision_on(name, device)
    return replace(wide, dtypes=replace(wide.dtypes, tf32_matrices=precision.dtypes.tf32_matrices))
