"""The sidecar: `song.wav.json` beside `song.wav`, with everything that matters to repeat the song, and its key.

A song is done when audio and sidecar are in place and the sidecar's key and sha256 match; there is no other state.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from music3_cli import AUDIO_REVISION, __version__
from music3_cli.errors import OutputError
from music3_cli.files import file_sha256, write_whole

SIDECAR_VERSION = 2


def sidecar_path(audio: Path) -> Path:
    return audio.with_name(audio.name + ".json")


def write_sidecar(audio: Path, content: Mapping[str, Any]) -> None:
    """Write beside and rename into place.

    Raises:
        OutputError: the folder does not take it.
    """
    path = sidecar_path(audio)
    head = {"sidecar_version": SIDECAR_VERSION}  # and no time of day: the same song has the same sidecar
    try:
        write_whole(path, (json.dumps({**head, **content}, indent=2, ensure_ascii=False) + "\n").encode())
    except OSError as error:
        raise OutputError(f"{path}: cannot be written ({error.strerror or error})") from None


def read_sidecar(audio: Path) -> dict[str, Any] | None:
    """The sidecar of `audio`, or None where there is none that can be read."""
    try:
        content = json.loads(sidecar_path(audio).read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(content, dict):
        return None
    tables = ("song", "settings", "checkpoint", "result")
    return content if all(isinstance(content.get(part, {}), dict) for part in tables) else None


def is_done(audio: Path, key: str) -> bool:
    """Whether `audio` is exactly the song with this key: both files there, key and content match."""
    sidecar = read_sidecar(audio)
    if sidecar is None or sidecar.get("key") != key or not audio.is_file():
        return False
    return bool(sidecar.get("result", {}).get("sha256") == file_sha256(audio))


def has_codes(audio: Path) -> bool:
    """Whether the codes file that the sidecar of `audio` names is there and unchanged."""
    from music3_cli.song.codes import codes_path

    kept = (read_sidecar(audio) or {}).get("result", {}).get("codes")
    path = codes_path(audio)
    return isinstance(kept, dict) and path.is_file() and kept.get("sha256") == file_sha256(path)


def differences(audio: Path, settings: Mapping[str, object], checkpoint_digest: str) -> str:
    """Why an existing file is another song, for messages: `seed 0 here, 7 wanted`."""
    sidecar = read_sidecar(audio)
    if sidecar is None:
        return "it has no sidecar"
    there = sidecar.get("settings", {})
    parts = []
    for name, wanted in settings.items():
        if isinstance(there, dict) and there.get(name) != wanted:
            short = name not in ("lyrics", "caption")
            parts.append(f"{name} {there.get(name)} there, {wanted} wanted" if short else f"other words in its {name}")
    if sidecar.get("checkpoint", {}).get("digest") != checkpoint_digest:
        parts.append("another checkpoint")
    if sidecar.get("audio_revision") != AUDIO_REVISION:
        parts.append("made by a music3 that gives other samples")
    return "; ".join(parts) or "its content does not match its sidecar"


def versions() -> dict[str, str]:
    """What the samples may depend on besides the settings."""
    found = {"music3": __version__, "python": platform.python_version(), "platform": platform.platform()}
    for package in ("torch", "tokenizers", "soundfile", "torchaudio"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "unknown"
    return found
