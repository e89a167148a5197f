"""Batch records with sound files, as a run leaves them in its folder."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from tests.support.sound import tone

CAPTION = (
    "Global Metadata:\nWarm indie folk with a female alto, at 90 BPM in D major.\n\nVocal Details:\nClose and calm."
)
LYRICS = "[verse]\nPaper lanterns on the water\n[chorus]\nFloat, float"


def song(id: str, **fields: Any) -> dict[str, Any]:
    """A finished song of the record, whose file need not exist."""
    status = fields.get("status", "rendered")
    file = f"{id}.wav" if status in ("rendered", "kept") else None
    usual = {
        "id": id,
        "title": id.replace("-", " ").title(),
        "artist": "The Lanterns",
        "take": 1,
        "seed": 7,
        "preset": "default",
        "caption": CAPTION,
        "lyrics": LYRICS,
        "status": status,
        "file": file,
        "sidecar": file and f"{file}.json",
        "seconds": 6.0 if file else None,
        "frames": 150 if file else None,
        "finish_reason": "end" if file else None,
        "warnings": [],
        "error": None,
        "sha256": hashlib.sha256(id.encode()).hexdigest() if file else None,
        "timings": {"talker": 1.25, "acoustic": 2.5} if file else None,
        "settings": {"steps": 30, "noise_seed": None, "precision": "fp32", "lyrics": LYRICS, "caption": CAPTION},
    }
    assert not set(fields) - set(usual), fields
    return {**usual, **fields}


def record(*songs: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The content of `batch.json`."""
    usual = {
        "format": 1,
        "title": "Harbour Songs",
        "manifest": "album.yaml",
        "checkpoint": {"name": "demo", "digest": "ab" * 32, "demo": True},
        "finished": True,
        "exit_code": 0,
        "songs": list(songs),
    }
    return {**usual, **fields}


def write_sounds(folder: Path, batch: dict[str, Any], seconds: float = 6.0, rate: int = 48_000) -> None:
    """A sound file for every song that names one, louder from song to song."""
    for number, entry in enumerate(batch["songs"]):
        if entry["file"]:
            path = folder / entry["file"]
            path.parent.mkdir(parents=True, exist_ok=True)
            subtype = {"subtype": "OPUS", "format": "OGG"} if path.suffix == ".opus" else {}
            sound = tone(seconds, rate, level=min(0.9, 0.1 * (number + 1)))
            soundfile.write(path, np.ascontiguousarray(sound.T), rate, **subtype)
