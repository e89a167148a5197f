"""A song's codes in a small file: what the talker drew, and everything that the acoustic half needs besides weights.

safetensors with `codes` [F, 8], `priming` [8] (the first step, which is fed back and not emitted) and, for the
reference scheme, `noise_state` (the generator after the talker's last draw). One metadata field, `music3`, is a JSON
record of the song, its settings and where it came from.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from music3_cli.errors import InputError, OutputError
from music3_cli.files import write_whole

CODES_VERSION = 1
CODES_ENDING = ".codes.safetensors"
BOOKS = 8
CODES_A_BOOK = (16_384, *[1024] * 7)


@dataclass(frozen=True)
class SongCodes:
    """One song's codes.

    Attributes:
        codes_FC: [F, 8] int16, the emitted frames.
        priming_C: [8] int16, the first step.
        finish_reason: how the talker ended the song, `end` or `ceiling`.
        noise_state: the reference scheme's generator state behind the talker, uint8; None for the server scheme.
        record: the file's JSON record; empty for codes that come from no file.
    """

    codes_FC: np.ndarray
    priming_C: np.ndarray
    finish_reason: str
    noise_state: np.ndarray | None = None
    record: Mapping[str, Any] = field(default_factory=dict)

    @property
    def frames(self) -> int:
        return len(self.codes_FC)

    @property
    def steps_FC(self) -> np.ndarray:
        """[F + 1, 8] int64, every step's codes from the unemitted first on."""
        return np.concatenate((self.priming_C[None], self.codes_FC)).astype(np.int64)

    @property
    def digest(self) -> str:
        """sha256 over all numbers."""
        state = b"" if self.noise_state is None else self.noise_state.tobytes()
        parts = (self.codes_FC.astype("<i2").tobytes(), self.priming_C.astype("<i2").tobytes(), state)
        return hashlib.sha256(b"".join(len(part).to_bytes(8, "little") + part for part in parts)).hexdigest()


def codes_path(audio: Path) -> Path:
    return audio.with_name(audio.name + CODES_ENDING)


def write_codes(path: Path, codes: SongCodes, record: Mapping[str, Any]) -> None:
    """Write beside and rename into place. Equal songs give equal bytes.

    Args:
        record: JSON content: `song`, `settings`, `checkpoint`, `device`, `versions`.

    Raises:
        OutputError: the folder does not take it.
    """
    from safetensors.numpy import save

    head = {"version": CODES_VERSION, "finish_reason": codes.finish_reason, "digest": codes.digest}
    tensors = {"codes": codes.codes_FC.astype(np.int16), "priming": codes.priming_C.astype(np.int16)}
    if codes.noise_state is not None:
        tensors["noise_state"] = codes.noise_state
    # One field only: safetensors writes several in any order.
    data = save(tensors, {"music3": json.dumps({**head, **record}, ensure_ascii=False, sort_keys=True)})
    try:
        write_whole(path, data)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written ({error.strerror or error})") from None


def read_codes(path: Path) -> SongCodes:
    """Read and check a codes file.

    Raises:
        InputError: missing, damaged, of another kind or version, or with codes that the model does not have.
    """
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise InputError(f"{path}: no such file", hint=f"Codes files end in {CODES_ENDING}; --keep-codes writes them.")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError(f"{path}: not a readable codes file ({error})", hint=_AGAIN) from None
    try:
        record = json.loads(metadata["music3"])
        version, finish_reason, digest = record["version"], record["finish_reason"], record["digest"]
        for name in ("song", "settings", "checkpoint"):
            if not isinstance(record[name], dict):
                raise ValueError(f"{name} is not an object")
    except (KeyError, ValueError, TypeError) as error:
        raise InputError(f"{path}: not a codes file of music3 (its record lacks {error})", hint=_AGAIN) from None
    if version != CODES_VERSION:
        raise InputError(f"{path}: codes file version {version}; {CODES_VERSION} was expected")
    codes, priming, state = tensors.get("codes"), tensors.get("priming"), tensors.get("noise_state")
    _check_shape(path, "codes", codes, (None, BOOKS))
    _check_shape(path, "priming", priming, (BOOKS,))
    assert codes is not None and priming is not None
    result = SongCodes(codes, priming, finish_reason, state, record)
    if result.digest != digest:
        raise InputError(f"{path}: damaged: its codes do not match their digest", hint=_AGAIN)
    if finish_reason not in ("end", "ceiling"):
        raise InputError(f"{path}: finish reason {finish_reason!r}; end or ceiling was expected")
    steps = result.steps_FC
    outside = np.argwhere((steps < 0) | (steps >= np.array(CODES_A_BOOK)))
    if len(outside):
        step, book = outside[0]
        raise InputError(f"{path}: step {step} has code {steps[step, book]} in codebook {book}, which it does not have")
    return result


def check_codes(codes: SongCodes, name: str, checkpoint_digest: str) -> None:
    """Raise `InputError` for codes that another checkpoint drew."""
    made_with = codes.record["checkpoint"]
    if made_with.get("digest") != checkpoint_digest:
        raise InputError(
            f"{name}: its codes were drawn with checkpoint {made_with.get('name')} (digest "
            f"{str(made_with.get('digest'))[:16]}); this one has digest {checkpoint_digest[:16]}",
            hint="Name the checkpoint that made them with --checkpoint.",
        )


_AGAIN = "Render the song again with --keep-codes."


def _check_shape(path: Path, name: str, tensor: np.ndarray | None, shape: tuple[int | None, ...]) -> None:
    expected = "[" + ", ".join("frames" if size is None else str(size) for size in shape) + "] int16"
    if tensor is None:
        raise InputError(f"{path}: tensor {name} is missing; {expected} was expected", hint=_AGAIN)
    fits = len(tensor.shape) == len(shape) and all(
        found > 0 and wanted in (None, found) for found, wanted in zip(tensor.shape, shape, strict=True)
    )
    if not fits or tensor.dtype != np.int16:
        raise InputError(
            f"{path}: tensor {name} is {list(tensor.shape)} {tensor.dtype}; {expected} was expected", hint=_AGAIN
        )
