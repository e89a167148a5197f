"""Output paths: from `-o` and a song's fields to a safe file name that cannot leave its folder."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Mapping
from pathlib import Path

from music3_cli.errors import OutputError, UsageError, system_errors_as
from music3_cli.song.delivery import ENDINGS
from music3_cli.song.manifest.template import fields_of

_MAX_NAME_BYTES = 180
_MOST_PATH_BYTES = 215
"""Of a file's name: file systems take 255, and an unfinished codes file beside a song has 40 more."""
_FORBIDDEN = re.compile(r'[<>:"/\\|?*\x00-\x1f\x7f]+')
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?", re.IGNORECASE)


def safe_name(text: str) -> str:
    """`text` as one file name on every common file system.

    Letters of all scripts stay, separators and control characters become `-`, reserved names get a `_` in front, long
    names are cut at 180 bytes. Never empty; stable; idempotent.
    """
    name = _FORBIDDEN.sub("-", unicodedata.normalize("NFC", text))
    name = "".join(character for character in name if unicodedata.category(character) not in ("Cc", "Cf", "Cs"))
    name = " ".join(name.split()).strip(" .-")
    name = name.encode()[:_MAX_NAME_BYTES].decode(errors="ignore").strip(" .-")
    if _RESERVED.fullmatch(name):
        name = f"_{name}"
    return name or "song"


def check_template(template: str) -> None:
    """Raise `UsageError` for a template with unknown fields."""
    try:
        fields_of(template)
    except ValueError as error:
        raise UsageError(f"--output {template!r}: {error}") from None


@system_errors_as(OutputError)
def output_template(output: str | None, songs: int, takes: int) -> str:
    """The template that `-o` means.

    Nothing: `{id}.{ext}` here. A folder (it exists, ends in a slash, or has no ending): the same inside it. With `{`: a
    template. Else one file, for one song. Several takes are told apart by `-take{take}`.

    Raises:
        UsageError: one file for several songs, an unknown ending or template field.
    """
    name = "{id}-take{take}.{ext}" if takes > 1 else "{id}.{ext}"
    if output is None:
        return name
    if output == "-":
        raise UsageError(
            "--output -: songs are files and do not go to stdout", hint="Name a file, a folder or a template."
        )
    path = Path(output)
    if "{" in output:
        check_template(output)
        template = output if path.suffix else f"{output}.{{ext}}"
    elif output.endswith(("/", "\\")) or path.is_dir() or not path.suffix:
        return str(path / name)
    else:
        if songs > 1:
            raise UsageError(
                f"--output {output}: one file for {songs} songs",
                hint="Name a folder, or a template such as out/{id}-{seed}.wav.",
            )
        # A literal brace cannot occur here; the path is used as it stands.
        template = output
    ending = Path(template).suffix.lstrip(".").lower()
    if ending not in (*ENDINGS, "{ext}"):
        raise UsageError(f"--output {output}: ending .{ending}; one of .{', .'.join(ENDINGS)} was expected")
    return template


def fixed_ending(template: str) -> str | None:
    """The ending that a template gives every file, or None where it follows from the format."""
    ending = Path(template).suffix.lstrip(".").lower()
    return None if ending == "{ext}" else ending


def fill_template(template: str, fields: Mapping[str, object]) -> Path:
    """A template's path for one song. Fields are made safe first, so none of them can add a folder or climb out.

    Raises:
        OutputError: the name is too long.
    """
    path = Path(template.format(**{name: safe_name(str(value)) for name, value in fields.items()}))
    if (size := len(os.fsencode(path.name))) > _MOST_PATH_BYTES:
        raise OutputError(
            f"{path}: a name of {size} bytes; at most {_MOST_PATH_BYTES} were expected",
            hint="Use fewer fields in the output template, or a shorter title or id.",
        )
    return path


def numbered(path: Path) -> Path:
    """The first of `name-2`, `name-3`, … that does not exist."""
    for number in range(2, 100_000):
        candidate = path.with_name(f"{path.stem}-{number}{path.suffix}")
        if not candidate.exists():
            return candidate
    raise OutputError(f"{path}: no free number is left")
