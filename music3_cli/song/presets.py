"""Presets: captions, and settings where they help, under a name. Packaged ones, and the user's that override them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

import platformdirs
import yaml

from music3_cli.errors import InputError, system_errors_as
from music3_cli.song.place import Place, scalar_place, text_place
from music3_cli.song.text import SourceFault, SourceText, read_text

FIELDS = ("description", "vocal", "placeholders", "caption", "settings")
SETTING_FIELDS = ("steps", "shift", "precision", "fast", "max_duration")
VOCALS = ("female", "male", "duet", "choir", "instrumental")

DEFAULT_PRESET = "default"
ENDINGS = (".yaml", ".yml")

_PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_]*)\}")
_BRACES = re.compile(r"\{[^{}\n]*\}?|\}")


@dataclass(frozen=True)
class Preset:
    """One preset.

    Attributes:
        caption: with `{placeholders}` still in it.
        placeholders: each placeholder's default.
        settings: raw setting values, such as `steps`.
        path: the file; `packaged` tells whose it is.
        caption_place: where the caption's characters stand in the file.
    """

    name: str
    description: str
    vocal: str
    caption: str
    placeholders: Mapping[str, str]
    settings: Mapping[str, object]
    path: Path
    packaged: bool
    caption_place: Place = field(default_factory=lambda: text_place(""), repr=False, compare=False)

    def filled_caption(self, values: Mapping[str, str] | None = None) -> str:
        """The caption with every placeholder replaced by `values` or its default.

        Raises:
            InputError: a value for a placeholder that the caption does not have.
        """
        values = values or {}
        if unknown := [key for key in values if key not in self.placeholders]:
            near = get_close_matches(unknown[0], self.placeholders, n=1)
            has = ", ".join(f"{key} ({default})" for key, default in self.placeholders.items()) or "none"
            raise InputError(
                f"preset {self.name}: no placeholder {unknown[0]!r}",
                hint=(f"Did you mean {near[0]}? " if near else "") + f"It has, with their defaults: {has}.",
            )
        known = {**self.placeholders, **values}
        return _PLACEHOLDER.sub(lambda match: known[match.group(1)], self.caption)

    def filled_place(self, values: Mapping[str, str] | None = None) -> Place:
        """Where the characters of `filled_caption(values)` stand in the file."""
        known = {**self.placeholders, **(values or {})}
        spans: list[tuple[int, int]] = []  # (offset in the filled caption, what to take off)
        shift = 0
        for match in _PLACEHOLDER.finditer(self.caption):
            value = known[match.group(1)]
            shift += len(value) - (match.end() - match.start())
            spans.append((match.end() + shift, shift))

        def place(offset: int) -> tuple[int, int]:
            by = next((shift for start, shift in reversed(spans) if offset >= start), 0)
            return self.caption_place(min(offset - by, len(self.caption)))

        return place


def packaged_folder() -> Path:
    """Where the presets of this installation lie: inside the wheel, or beside the package in a source tree."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "presets"
    return inside if inside.is_dir() else package.parent / "presets"


def user_folder() -> Path:
    """Where users put presets of their own: `MUSIC3_PRESETS`, or `presets` in the configuration folder."""
    return Path(os.environ.get("MUSIC3_PRESETS") or platformdirs.user_config_path("music3") / "presets")


@system_errors_as(InputError)
def preset_paths() -> dict[str, tuple[Path, bool]]:
    """Name -> (file, packaged?), sorted by name; the user's files override packaged ones."""
    paths: dict[str, tuple[Path, bool]] = {}
    for folder, packaged in ((packaged_folder(), True), (user_folder(), False)):
        for path in sorted(folder.glob("*.y*ml"), reverse=True):  # of two endings .yaml comes last and stays
            if path.suffix in ENDINGS and not path.name.startswith("."):
                paths[path.stem] = (path, packaged)
    return dict(sorted(paths.items()))


def find_preset(name: str) -> tuple[Path, bool]:
    """A preset's file, which may be faulty, and whether it is packaged.

    Raises:
        InputError: unknown name, with the nearest right one.
    """
    paths = preset_paths()
    if name not in paths:
        near = get_close_matches(name, paths, n=1)
        raise InputError(
            f"no preset named {name!r}",
            hint=(f"Did you mean {near[0]}? " if near else "") + "`music3 presets list` shows all of them.",
        )
    return paths[name]


def load_preset(name: str) -> Preset:
    """Find and check one preset.

    Raises:
        InputError: unknown name (with the nearest right one) or a faulty file.
    """
    path, packaged = find_preset(name)
    return parse_preset(name, path, packaged)


def parse_preset(name: str, path: Path, packaged: bool) -> Preset:
    """Read one preset file.

    Raises:
        SourceFault: not YAML, a field missing, unknown or of another kind, a placeholder without a default or unused.
    """
    return preset_of(read_text(str(path)), name, path, packaged)


def preset_of(source: SourceText, name: str, path: Path, packaged: bool) -> Preset:
    """A preset from its file's text; raises as `parse_preset`."""
    fields = _fields(source)

    def bad(what: str, field: str = "", hint: str = "") -> SourceFault:
        node = fields.get(field)
        line = node.start_mark.line + 1 if node is not None else 0
        return SourceFault("preset-invalid", source.name, f"preset: {what}", line=line, hint=hint)

    for key in fields:
        if key not in FIELDS:
            near = get_close_matches(key, FIELDS, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"Known fields: {', '.join(FIELDS)}."
            raise bad(f"unknown field {key!r}", key, hint)
    caption_node = fields.get("caption")
    caption = caption_node.value if isinstance(caption_node, yaml.ScalarNode) else ""
    if caption_node is None or not caption.strip():
        raise bad("field caption is missing or empty", "caption", "Write `caption: |` and the text below, indented.")
    vocal = _scalar(fields.get("vocal")) or "female"
    if vocal not in VOCALS:
        raise bad(f"vocal {vocal!r}; one of {', '.join(VOCALS)} was expected", "vocal", "Correct it.")
    placeholders, settings = (_table(fields.get(key)) for key in ("placeholders", "settings"))
    for key, table in (("placeholders", placeholders), ("settings", settings)):
        if table is None:
            raise bad(f'{key} must be a table of plain values, such as `bpm: "92"`', key)
    assert placeholders is not None and settings is not None
    if unknown := [key for key in settings if key not in SETTING_FIELDS]:
        raise bad(f"unknown setting {unknown[0]!r}; known settings: {', '.join(SETTING_FIELDS)}", "settings")
    used = _PLACEHOLDER.findall(caption)
    if missing := [key for key in used if key not in placeholders]:
        raise bad(
            f"placeholder {{{missing[0]}}} has no default under placeholders",
            "caption",
            f"Write it there, such as `{missing[0]}: …`.",
        )
    if unused := [key for key in placeholders if key not in used]:
        raise bad(
            f"placeholder {unused[0]} does not occur in the caption", "placeholders", f"Use {{{unused[0]}}} there."
        )
    if odd := [match for match in _BRACES.findall(caption) if not _PLACEHOLDER.fullmatch(match)]:
        raise bad(
            f"{odd[0]!r} in the caption is no placeholder", "caption", "Placeholders are {lower_case} words in braces."
        )
    start, end = caption_node.start_mark.index, caption_node.end_mark.index
    place, skipped = scalar_place(source.text, start, end, caption), len(caption) - len(caption.lstrip())
    return Preset(
        name,
        _scalar(fields.get("description")),
        vocal,
        caption.strip(),
        placeholders,
        settings,
        path,
        packaged,
        lambda offset: place(offset + skipped),
    )


def _fields(source: SourceText) -> dict[str, yaml.Node]:
    """The file's fields as YAML nodes, which know their lines."""

    def bad(what: str, line: int = 0, hint: str = "") -> SourceFault:
        return SourceFault("preset-invalid", source.name, f"preset: {what}", line=line, hint=hint)

    try:
        node = yaml.compose(source.text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "not readable"
        hint = "Quote text that has a colon in it."
        raise bad(f"not valid YAML ({problem})", mark.line + 1 if mark else 0, hint) from None
    except RecursionError:
        raise bad("tables inside tables without end") from None
    if not isinstance(node, yaml.MappingNode):
        raise bad("a table of fields was expected", hint=f"Fields: {', '.join(FIELDS)}.")
    return {str(key.value): value for key, value in node.value}


def _scalar(node: yaml.Node | None) -> str:
    return str(node.value) if isinstance(node, yaml.ScalarNode) else ""


def _table(node: yaml.Node | None) -> dict[str, str] | None:
    """A table of plain values as they are written; empty where there is none, None where it is something else."""
    if node is None or (isinstance(node, yaml.ScalarNode) and node.value in ("", "~", "null")):
        return {}
    if not isinstance(node, yaml.MappingNode):
        return None
    pairs = [(key, value) for key, value in node.value if isinstance(value, yaml.ScalarNode)]
    if len(pairs) != len(node.value):
        return None
    return {str(key.value): str(value.value) for key, value in pairs}
