"""Presets: captions, and settings where they help, under a name. Packaged ones, and the user's that override them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import platformdirs
import yaml

from music3_cli.errors import InputError
from music3_cli.song.text import read_text

FIELDS = ("description", "vocal", "placeholders", "caption", "settings")
SETTING_FIELDS = ("steps", "max_duration")
VOCALS = ("female", "male", "duet", "choir", "instrumental")

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True)
class Preset:
    """One preset.

    Attributes:
        caption: with `{placeholders}` still in it.
        placeholders: each placeholder's default.
        settings: raw setting values, such as `steps`.
        path: the file; `packaged` tells whose it is.
    """

    name: str
    description: str
    vocal: str
    caption: str
    placeholders: Mapping[str, str]
    settings: Mapping[str, object]
    path: Path
    packaged: bool

    def filled_caption(self, values: Mapping[str, str] | None = None) -> str:
        """The caption with every placeholder replaced by `values` or its default."""
        known = {**self.placeholders, **(values or {})}
        return _PLACEHOLDER.sub(lambda match: known[match.group(1)], self.caption)


def packaged_folder() -> Path:
    """Where the presets of this installation lie: inside the wheel, or beside the package in a source tree."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "presets"
    return inside if inside.is_dir() else package.parent / "presets"


def user_folder() -> Path:
    """Where users put presets of their own: `MUSIC3_PRESETS`, or `presets` in the configuration folder."""
    return Path(os.environ.get("MUSIC3_PRESETS") or platformdirs.user_config_path("music3") / "presets")


def preset_paths() -> dict[str, tuple[Path, bool]]:
    """Name -> (file, packaged?), sorted by name; the user's files override packaged ones."""
    paths = {path.stem: (path, True) for path in packaged_folder().glob("*.yaml")}
    paths.update({path.stem: (path, False) for path in user_folder().glob("*.yaml")})
    return dict(sorted(paths.items()))


def load_preset(name: str) -> Preset:
    """Find and check one preset.

    Raises:
        InputError: unknown name (with the nearest right one) or a faulty file.
    """
    paths = preset_paths()
    if name not in paths:
        near = get_close_matches(name, paths, n=1)
        raise InputError(
            f"no preset named {name!r}",
            hint=(f"Did you mean {near[0]}? " if near else "") + "`music3 presets list` shows all of them.",
        )
    path, packaged = paths[name]
    return parse_preset(name, path, packaged)


def parse_preset(name: str, path: Path, packaged: bool) -> Preset:
    """Read one preset file.

    Raises:
        InputError: not YAML, a field missing, unknown or of another kind, a placeholder without a default.
    """
    try:
        data = yaml.safe_load(read_text(str(path)).text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise InputError(f"{path}{line}: preset: not valid YAML ({getattr(error, 'problem', None) or error})") from None

    def bad(what: str) -> InputError:
        return InputError(f"{path}: preset: {what}")

    if not isinstance(data, dict):
        raise bad("a table of fields was expected")
    for field in data:
        if field not in FIELDS:
            raise bad(f"unknown field {field!r}; known fields: {', '.join(FIELDS)}")
    caption = data.get("caption")
    if not isinstance(caption, str) or not caption.strip():
        raise bad("field caption is missing or empty")
    vocal = data.get("vocal", "female")
    if vocal not in VOCALS:
        raise bad(f"vocal {vocal!r}; one of {', '.join(VOCALS)} was expected")
    placeholders, settings = data.get("placeholders") or {}, data.get("settings") or {}
    if not isinstance(placeholders, dict) or not isinstance(settings, dict):
        raise bad("placeholders and settings must be tables")
    if unknown := [key for key in settings if key not in SETTING_FIELDS]:
        raise bad(f"unknown setting {unknown[0]!r}; known settings: {', '.join(SETTING_FIELDS)}")
    if missing := [key for key in _PLACEHOLDER.findall(caption) if key not in placeholders]:
        raise bad(f"placeholder {{{missing[0]}}} has no default under placeholders")
    return Preset(
        name,
        str(data.get("description") or ""),
        vocal,
        caption.strip(),
        {str(key): str(value) for key, value in placeholders.items()},
        settings,
        path,
        packaged,
    )
