"""The audition page: `index.html` in an output folder, to listen to a batch's takes and choose among them.

One file without a server and without a network: style, script and data are in it, the sound files lie beside it. It is
a function of the batch's record (but its timings) and the sound files: made again, it has the same bytes, whether songs
were rendered in this run or kept from an earlier one. Song texts reach the page as JSON only, which the script turns
into text nodes; nothing of them is ever read as HTML.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import quote

from music3_cli.errors import InputError, OutputError
from music3_cli.files import write_whole

PAGE = "index.html"
DATA_VERSION = 1
"""Raised when the embedded data changes its meaning; waveforms of pages with another one are not taken over."""
COLUMNS = 240
"""Columns of a waveform: 480 bytes a take."""

_ASSETS = Path(__file__).parent / "audition"
_SCRIPTS = ("elements.js", "batch.js", "favourites.js", "player.js", "takes.js", "list.js", "export.js", "main.js")
_DATA = re.compile(rb'<script type="application/json" id="batch">(.*?)</script>', re.DOTALL)
_FINISHED = ("rendered", "kept")


def write_page(folder: Path, batch: Mapping[str, Any]) -> Path:
    """Write the page for a batch.

    Args:
        folder: the output folder, which the record's file names are relative to.
        batch: the content of `batch.json`.

    Returns:
        the page's path.

    Raises:
        OutputError: it cannot be written, or an `index.html` is there that is none of ours.
    """
    path = folder / PAGE
    older = _older(path)
    data = _page_data(batch, _waves(folder, batch["songs"], _known_waves(older)))
    try:
        write_whole(path, _page(batch["title"], data))
    except OSError as error:
        raise OutputError(f"{path}: cannot be written ({error.strerror or error})") from None
    return path


def _page(title: str, data: Mapping[str, Any]) -> bytes:
    style = (_ASSETS / "page.css").read_text(encoding="utf-8")
    script = "\n".join((_ASSETS / name).read_text(encoding="utf-8") for name in _SCRIPTS)
    # Without "<" no text can end the data or begin a comment. A lone surrogate becomes its JSON escape.
    embedded = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    page = Template((_ASSETS / "page.html").read_text(encoding="utf-8")).substitute(
        title=html.escape(title),
        style=style,
        style_hash=_source_hash(style),
        script=script,
        script_hash=_source_hash(script),
        data=embedded,
    )
    return page.encode("utf-8", "backslashreplace")


def _source_hash(text: str) -> str:
    """As a content security policy names an inline style or script that is allowed."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _page_data(batch: Mapping[str, Any], waves: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What the script shows.

    Takes of a song stand together in the place of the first one. Captions, lyrics and settings, which many takes share,
    stand once each in `texts` and are named by their number.
    """
    texts: dict[str, int] = {}
    shared = _shared_warnings(batch["songs"])
    songs: dict[str, list[dict[str, Any]]] = {}
    for song in batch["songs"]:
        take = _take(song, waves.get(song["file"] or "", {}), shared)
        for name, text in (
            ("caption", song["caption"]),
            ("lyrics", song["lyrics"]),
            ("settings", json.dumps(_shown_settings(song["settings"]), ensure_ascii=False)),
        ):
            take[name] = texts.setdefault(text or "", len(texts))
        songs.setdefault(_song_of(song), []).append(take)
    return {
        "version": DATA_VERSION,
        "title": batch["title"],
        "manifest": batch["manifest"],
        "checkpoint": {name: batch["checkpoint"][name] for name in ("name", "digest", "demo")},
        "shared_warnings": shared,
        "texts": list(texts),
        "songs": [{"id": name, "takes": takes} for name, takes in songs.items()],
    }


def _shown_settings(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Names and texts: a browser's numbers do not hold a seed's 64 bits."""
    return [
        (name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for name, value in sorted(settings.items())
        if value is not None and name not in ("caption", "lyrics", "seed")
    ]


def _take(song: Mapping[str, Any], wave: Mapping[str, Any], shared: Iterable[str]) -> dict[str, Any]:
    from music3_cli.audio.checks import warning_time

    file, status = song["file"], song["status"]
    warnings = [warning for warning in song["warnings"] if warning not in shared]
    return {
        **{name: song[name] for name in ("id", "title", "artist", "take", "preset", "finish_reason", "error")},
        "seed": "" if song["seed"] is None else str(song["seed"]),  # a song that was skipped may have none
        # Whether this run or an earlier one made the song is no property of the song.
        "status": "finished" if status in _FINISHED else status,
        "file": file,
        "href": quote(os.fsencode(file)) if file else None,
        "seconds": wave.get("seconds", song["seconds"]),
        "sha256": song["sha256"],
        "warnings": [{"text": warning, "at": warning_time(warning)} for warning in warnings],
        "peaks": wave.get("peaks"),
        "fault": wave.get("fault"),
    }


def _song_of(song: Mapping[str, Any]) -> str:
    """The id that a song's takes have in common."""
    return str(song["id"]).removesuffix(f"-take{song['take']}")


def _shared_warnings(songs: Iterable[Mapping[str, Any]]) -> list[str]:
    """Warnings that every finished take has: they are about the batch, and would hide those about a take."""
    finished = [song["warnings"] for song in songs if song["status"] in _FINISHED]
    if len(finished) < 2:
        return []
    return [warning for warning in dict.fromkeys(finished[0]) if all(warning in others for others in finished)]


def _waves(
    folder: Path, songs: Iterable[Mapping[str, Any]], known: Mapping[str, Mapping[str, Any]]
) -> dict[str, Mapping[str, Any]]:
    """File name -> its waveform, or `fault` where it has none; `known` ones, by sha256, are not measured again."""
    files = {song["file"]: song["sha256"] for song in songs if song["status"] in _FINISHED and song["file"]}

    def wave(file: str) -> Mapping[str, Any]:
        path = folder / file
        if not path.is_file():
            return {"fault": "the file is not there"}
        return known.get(files[file]) or _wave(path)

    # Decoders run outside the interpreter's lock, and a thread holds one block of samples at a time.
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as threads:
        return dict(zip(files, threads.map(wave, files), strict=True))


def _wave(path: Path) -> dict[str, Any]:
    import numpy as np

    from music3_cli.audio.envelope import file_envelope

    try:
        extremes, seconds = file_envelope(path, COLUMNS)
    except InputError:
        return {"fault": "the file is not a readable sound file"}
    outward = np.stack((np.floor(extremes[0] * 127), np.ceil(extremes[1] * 127)), 1)
    peaks = outward.clip(-127, 127).astype(np.int8)
    return {"peaks": base64.b64encode(peaks.tobytes()).decode(), "seconds": round(seconds, 3)}


def _older(path: Path) -> re.Match[bytes] | None:
    """The data of the page that is there."""
    try:
        found = _DATA.search(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise OutputError(f"{path}: cannot be read ({error.strerror or error})") from None
    if not found:
        raise OutputError(f"{path}: music3 did not make it, so it is not replaced; move it elsewhere and run again")
    return found


def _known_waves(page: re.Match[bytes] | None) -> dict[str, Mapping[str, Any]]:
    """Waveforms by the sha256 of their file, from the folder's page as it is: a rerun that keeps thousands of songs
    need not decode them.
    """
    try:
        data = json.loads(page[1]) if page else {}
        if data.get("version") != DATA_VERSION:
            return {}
        takes = [take for song in data["songs"] for take in song["takes"] if take["sha256"] and take["peaks"]]
        return {take["sha256"]: {"peaks": take["peaks"], "seconds": take["seconds"]} for take in takes}
    except (ValueError, LookupError, TypeError, AttributeError):
        return {}
