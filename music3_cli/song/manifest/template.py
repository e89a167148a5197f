"""The names of a batch's files: templates of fields that cannot leave the output folder."""

from __future__ import annotations

import string
from difflib import get_close_matches
from pathlib import PurePosixPath, PureWindowsPath

from music3_cli.song.delivery import ENDINGS

FIELDS = ("id", "title", "index", "take", "seed", "preset", "ext")


def fields_of(template: str) -> list[str]:
    """The names in braces.

    Raises:
        ValueError: unbalanced braces, or a field that does not exist.
    """
    known = f"Fields: {', '.join(f'{{{name}}}' for name in FIELDS)}"
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        raise ValueError(f"{error}. {known}") from None
    names = [name for _, name, _, _ in parts if name is not None]
    for name in names:
        if name not in FIELDS:
            near = get_close_matches(name, FIELDS, n=1)
            raise ValueError(f"unknown field {{{name}}}. " + (f"Did you mean {{{near[0]}}}?" if near else known))
    if any(spec or conversion for _, name, spec, conversion in parts if name is not None):
        raise ValueError(f"plain fields were expected, without : or !. {known}")
    return names


def check_song_template(template: str) -> None:
    """Whether a template names files inside the output folder.

    Raises:
        ValueError: it does not, with what was expected.
    """
    fields_of(template)
    path = PurePosixPath(template.replace("\\", "/"))
    if path.is_absolute() or PureWindowsPath(template).drive or ".." in path.parts or template.startswith("~"):
        raise ValueError("a name inside the output folder was expected, without .. and not from a root")
    if any(part.startswith(".") for part in path.parts):
        raise ValueError("names were expected that do not begin with a dot")
    if not template.strip() or template.endswith(("/", "\\")):
        raise ValueError("a file's name was expected, not a folder")
    ending = path.suffix.lstrip(".").lower()
    if ending and ending not in (*ENDINGS, "{ext}"):
        raise ValueError(f"ending .{ending}; one of .{', .'.join(ENDINGS)} or .{{ext}} was expected")


def with_ending(template: str) -> str:
    return template if PurePosixPath(template).suffix else f"{template}.{{ext}}"
