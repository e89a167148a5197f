"""A song file's own labels: what players show, and what the weights' licence asks to disclose."""

from __future__ import annotations

import base64
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from music3_cli.errors import InputError

AI_GENERATED = "AI-generated"

MORE = {"genre": "TCON", "date": "TDRC", "composer": "TCOM", "copyright": "TCOP"}
"""Further labels and their ID3 frames; in Vorbis comments they are called as here, in capitals."""


@dataclass(frozen=True)
class Tags:
    """Labels of one song; empty ones are left out. They do not depend on when, where or beside what it was rendered.

    Attributes:
        track: `3` or `3/12`.
        seed: decimal.
        model, revision: of the weights.
        encoder: the program.
        comment: says how the song was made and the command that repeats it.
        cover: a JPEG or PNG file's content.
        more: any of `MORE`.
    """

    title: str = ""
    artist: str = ""
    album: str = ""
    track: str = ""
    seed: str = ""
    model: str = ""
    revision: str = ""
    encoder: str = ""
    comment: str = ""
    lyrics: str = ""
    cover: bytes = b""
    more: Mapping[str, str] = field(default_factory=dict)

    @property
    def custom(self) -> dict[str, str]:
        """What no standard field exists for; the names are the same in every format."""
        disclosure = f"{AI_GENERATED} ({self.model})" if self.model else AI_GENERATED
        fields = {"AI_GENERATED": disclosure, "SEED": self.seed, "MODEL": self.model, "MODEL_REVISION": self.revision}
        return {name: value for name, value in fields.items() if value}


def image_type(cover: bytes) -> str:
    """The cover's MIME type.

    Raises:
        InputError: neither JPEG nor PNG.
    """
    if cover.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if cover.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    raise InputError("the cover is neither JPEG nor PNG", hint="Convert the image.")


def write_tags(path: Path, format: str, tags: Tags) -> None:
    """Put tags into a finished file of one of `FORMATS`: ID3v2.3 into WAV and MP3, Vorbis comments into the others.

    Raises:
        InputError: an unknown kind of cover.
        OSError, mutagen.MutagenError: the file does not take them.
    """
    if format in ("wav", "mp3"):
        _write_id3(path, format, tags)
    else:
        _write_comments(path, format, tags)


def _one_line(text: str) -> str:
    return " ".join("".join(" " if unicodedata.category(c) in ("Cc", "Cs") else c for c in text).split())


def _lines(text: str) -> str:
    kept = (c for c in text if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cs"))
    return "".join(kept).strip("\n")


def _write_id3(path: Path, format: str, tags: Tags) -> None:
    from mutagen import id3
    from mutagen.mp3 import MP3
    from mutagen.wave import WAVE

    file: Any = WAVE(path) if format == "wav" else MP3(path)
    if file.tags is None:
        file.add_tags()
    text = {"TIT2": tags.title, "TPE1": tags.artist, "TALB": tags.album, "TRCK": tags.track, "TSSE": tags.encoder}
    text |= {MORE[name]: value for name, value in tags.more.items()}
    for name, value in text.items():
        if value:
            file.tags.add(getattr(id3, name)(encoding=id3.Encoding.UTF16, text=[_one_line(value)]))
    for name, value in tags.custom.items():
        file.tags.add(id3.TXXX(encoding=id3.Encoding.UTF16, desc=name, text=[_one_line(value)]))
    if tags.comment:
        file.tags.add(id3.COMM(encoding=id3.Encoding.UTF16, lang="eng", desc="", text=[_lines(tags.comment)]))
    if tags.lyrics:
        file.tags.add(id3.USLT(encoding=id3.Encoding.UTF16, lang="und", desc="", text=_lines(tags.lyrics)))
    if tags.cover:
        front = id3.PictureType.COVER_FRONT
        file.tags.add(id3.APIC(encoding=id3.Encoding.LATIN1, mime=image_type(tags.cover), type=front, data=tags.cover))
    file.save(v2_version=3)


def _write_comments(path: Path, format: str, tags: Tags) -> None:
    from mutagen.flac import FLAC
    from mutagen.oggopus import OggOpus
    from mutagen.oggvorbis import OggVorbis

    file: Any = {"flac": FLAC, "ogg": OggVorbis, "opus": OggOpus}[format](path)
    if file.tags is None:
        file.add_tags()
    number, _, total = tags.track.partition("/")
    one_line = {
        "TITLE": tags.title,
        "ARTIST": tags.artist,
        "ALBUM": tags.album,
        "TRACKNUMBER": number,
        "TRACKTOTAL": total,
        "ENCODER": tags.encoder,
        **{name.upper(): value for name, value in tags.more.items()},
        **tags.custom,
    }
    fields = {name: _one_line(value) for name, value in one_line.items()}
    fields |= {"COMMENT": _lines(tags.comment), "LYRICS": _lines(tags.lyrics)}
    for name, value in fields.items():
        if value:
            file.tags[name] = [value]
    if tags.cover:
        picture = _picture(tags.cover)
        if format == "flac":
            file.add_picture(picture)
        else:
            file.tags["METADATA_BLOCK_PICTURE"] = [base64.b64encode(picture.write()).decode()]
    file.save()


def _picture(cover: bytes) -> Any:
    from mutagen.flac import Picture
    from mutagen.id3 import PictureType

    picture = Picture()
    picture.type, picture.mime, picture.data = PictureType.COVER_FRONT, image_type(cover), cover
    return picture
