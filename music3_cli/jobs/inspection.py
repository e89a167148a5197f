"""A finished song judged from its file and its sidecar."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from music3_cli.audio.checks import ending_warnings
from music3_cli.audio.inspection import SongFile
from music3_cli.files import file_sha256


@dataclass(frozen=True)
class Verdict:
    """What was found.

    Attributes:
        errors: the file is not the whole, sound song that it should be.
        warnings: worth listening to.
        notes: neither.
        seams: where windows join, in seconds; empty where unknown.
    """

    errors: tuple[str, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    seams: tuple[float, ...]


def judge(file: SongFile, sidecar: Mapping[str, Any] | None) -> Verdict:
    """Everything that the file alone shows, and what it should be by its sidecar."""
    errors, notes = [], []
    faults = file.faults
    if faults.not_finite:
        errors.append(f"{faults.not_finite} samples are not finite, the first at {faults.first_not_finite:.2f} s")
    if faults.samples < file.declared_samples:
        errors.append(f"cut off: {faults.samples} samples can be read, its header says {file.declared_samples}")
    warnings = faults.warnings() + file.levels.warnings()
    result = sidecar.get("result") if sidecar else None
    if sidecar is None or not isinstance(result, dict):
        notes.append("it has no sidecar: whether it is the whole song is not known")
        return Verdict(tuple(errors), tuple(warnings), tuple(notes), ())
    samples, rate = result.get("samples"), result.get("sample_rate")
    if rate != file.sample_rate:
        errors.append(f"{file.sample_rate} Hz; by its sidecar it was written at {rate} Hz")
    elif isinstance(samples, int) and faults.samples != samples:
        is_less = faults.samples < samples
        errors.append(
            f"{'early end' if is_less else 'too long'}: {faults.seconds:.2f} s; by its sidecar the song has "
            f"{samples / rate:.2f} s"
        )
    elif file_sha256(file.path) != result.get("sha256"):
        notes.append("it is not the file that was rendered: its tags or its sound were changed")
    lyrics = sidecar.get("settings", {}).get("lyrics", "")
    if not sidecar.get("checkpoint", {}).get("demo"):  # whose songs always reach their ceiling
        warnings += ending_warnings(str(result.get("finish_reason")), faults.seconds, str(lyrics))
    seams = result.get("seams", ())
    return Verdict(tuple(errors), tuple(warnings), tuple(notes), tuple(float(seam) for seam in seams))
