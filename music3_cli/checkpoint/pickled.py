"""A torch file's tensors, mapped and read as tensors only (`weights_only=True`): nothing in the file is executed.

torch is imported when a file is opened.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from music3_cli.checkpoint.findings import Fault, Finding, faults, first_few
from music3_cli.checkpoint.layout import Component, Shapes
from music3_cli.checkpoint.native import NATIVE_AGAIN, Source, mismatch, source_of
from music3_cli.errors import raise_all

if TYPE_CHECKING:
    import torch

REMAP_BYTES = 2**30
"""Pages of a map that were read count as memory: the file is mapped anew after so many bytes."""


class PickledTensors:
    """A torch file's tensors by name, mapped."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._read = 0
        self._used: set[str] = set()
        self._tensors = self._map()

    def _map(self) -> dict[str, torch.Tensor]:
        import torch

        try:
            content = torch.load(self.file, map_location="cpu", mmap=True, weights_only=True)
        except OSError as error:
            what = f"cannot be read ({error.strerror or error})"
            raise Fault(Finding("unreadable", self.file, what, hint="Check its permissions.")) from None
        except Exception as error:  # torch raises RuntimeError, UnpicklingError, EOFError and others here
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            if "weights" in str(error).lower() and "unpickl" in type(error).__name__.lower():
                what = "holds something else than tensors; nothing of it was executed"
            else:
                what = f"is no torch file that can be mapped ({first[:120]})"
            raise Fault(Finding("unreadable", self.file, what, "a file with tensors", NATIVE_AGAIN)) from None
        tensors = _tensors_of(content)
        if not tensors:
            raise Fault(Finding("tensor", self.file, "no tensors are in it", hint=NATIVE_AGAIN))
        return tensors

    def check(self, component: Component, shapes: Shapes) -> None:
        """Raise `Fault` or `ManyErrors` for tensors that are missing or of another shape or dtype."""
        wrong = []
        for name, shape in shapes.items():
            source = source_of(component.name, name)
            tensor = self._tensors.get(source.name)
            if tensor is None:
                wrong.append(mismatch(self.file, f"tensor {source.name} is missing", f"shape {list(shape)}"))
                continue
            expected = (shape[0] * source.parts, *shape[1:])
            dtype = _dtype_name(tensor)
            if tuple(tensor.shape) != expected:
                what = f"tensor {source.name} has shape {list(tensor.shape)}"
                wrong.append(mismatch(self.file, what, str(list(expected))))
            elif dtype != component.dtype:
                wrong.append(mismatch(self.file, f"tensor {source.name} is {dtype}", component.dtype))
        raise_all(faults(first_few(wrong, "such tensors")))

    def blocks(self, source: Source, block_bytes: int) -> Iterator[memoryview]:
        """The bytes of a tensor, or of one of its equal blocks of rows."""
        import torch

        if self._read > REMAP_BYTES:
            self._read = 0
            self._tensors = {}
            self._tensors = self._map()
        tensor = self._tensors[source.name]
        self._used.add(source.name)
        count = tensor.shape[0] // source.parts if source.parts > 1 else 0
        part = tensor[source.part * count : (source.part + 1) * count] if source.parts > 1 else tensor
        self._read += part.nbytes
        flat = part.contiguous().flatten()
        step = block_bytes // flat.itemsize
        for start in range(0, flat.numel(), step):
            block: Any = flat[start : start + step].view(torch.uint8).numpy()
            yield memoryview(block)

    def unused(self) -> int:
        return len(set(self._tensors) - self._used)


def _tensors_of(content: object) -> dict[str, torch.Tensor]:
    """The tensors of a state dict, or of the only state dict that a dict holds."""
    import torch

    if not isinstance(content, dict):
        return {}
    tensors = {str(name): value for name, value in content.items() if isinstance(value, torch.Tensor)}
    inner = [value for value in content.values() if isinstance(value, dict)]
    return tensors if tensors or len(inner) != 1 else _tensors_of(inner[0])


def _dtype_name(tensor: torch.Tensor) -> str:
    import torch

    names = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16", torch.float64: "F64"}
    return names.get(tensor.dtype, str(tensor.dtype))
