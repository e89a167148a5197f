"""Settings of a song: what each may be, and which source wins.

Sources, strongest first: flag, lyrics front matter, preset, built-in. Every resolved value remembers its source,
so that `--show-settings` and error messages can name it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from music3_cli.errors import InputError, UsageError
from music3_cli.song.limits import FRAME_RATE, MAX_FRAMES, MAX_SEED, clock, frames_to_seconds, seconds_to_frames

T = TypeVar("T")

_CLOCK = re.compile(r"(?:(\d+):)?(\d+):([0-5]?\d(?:\.\d+)?)")


@dataclass(frozen=True)
class Sourced(Generic[T]):
    """A value and where it came from, such as `--seed` or `songs/a.txt:3`."""

    value: T
    source: str


@dataclass(frozen=True)
class Layer:
    """One source of settings. `values` maps a setting's name to its raw value; `where` names the place of each.

    Values in a layer of flags are usage errors when wrong; in a file they are input errors.
    """

    values: Mapping[str, object]
    where: Mapping[str, str]
    is_flags: bool = False

    def without(self, name: str) -> Layer:
        """The same layer with one value left out."""
        return Layer({key: value for key, value in self.values.items() if key != name}, self.where, self.is_flags)


@dataclass(frozen=True)
class Setting:
    """One setting: how its raw value (text or YAML scalar) is read, and what it is without any source.

    `parse` raises `ValueError` with what was expected.
    """

    name: str
    parse: Callable[[object], Any]
    default: Any


def _whole(value: object, low: int, high: int, what: str) -> int:
    expected = f"a whole number from {low} to {high} was expected{what}"
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(expected)
    try:
        number = int(value)
    except ValueError:
        raise ValueError(expected) from None
    if not low <= number <= high:
        raise ValueError(expected)
    return number


def parse_seed(value: object) -> int | str:
    """A seed in [0, 2^64), or `random` (drawn once by the planner)."""
    if value == "random":
        return "random"
    return _whole(value, 0, MAX_SEED, " (or random)")


def parse_duration(value: object) -> int:
    """A ceiling such as `210`, `3:30` or `1:30.5`, in frames; 0.04 s to 6 minutes."""
    longest = clock(frames_to_seconds(MAX_FRAMES))
    expected = f"a ceiling from {1 / FRAME_RATE} s to {longest} was expected, such as 210 or 3:30"
    if isinstance(value, bool):
        raise ValueError(expected)
    if isinstance(value, int | float):
        seconds = _wide(value)
    elif matched := _CLOCK.fullmatch(str(value).strip()):
        hours, minutes, secs = matched.groups()
        seconds = _wide(int(hours or 0)) * 3600 + _wide(int(minutes)) * 60 + float(secs)
    else:
        try:
            seconds = float(str(value).strip().removesuffix("s"))
        except ValueError:
            raise ValueError(expected) from None
    if not math.isfinite(seconds) or not 1 <= seconds_to_frames(seconds) <= MAX_FRAMES:
        raise ValueError(expected)
    return seconds_to_frames(seconds)


def _wide(value: float) -> float:
    """As float; a whole number that is too large for one is infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _number(value: object, low: float, high: float, what: str) -> float:
    expected = f"a number from {low:g} to {high:g} was expected{what}"
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(expected)
    try:
        number = float(value) if isinstance(value, str) else _wide(value)
    except ValueError:
        raise ValueError(expected) from None
    if not low <= number <= high:
        raise ValueError(expected)
    return number


def parse_track(value: object) -> str:
    """A track number such as `3`, or `3/12`."""
    matched = re.fullmatch(r"\s*(\d{1,4})(?:/(\d{1,4}))?\s*", str(value))
    if isinstance(value, bool) or matched is None:
        raise ValueError("a track number such as 3 or 3/12 was expected")
    return "/".join(str(int(part)) for part in matched.groups() if part)


_LEVELS = {"peak": (-30.0, -1.0, -1.0, "dBTP"), "loudness": (-40.0, -5.0, -14.0, "LUFS")}
"""Normalisation: lowest and highest target, the default, the unit."""


def parse_normalize(value: object) -> str:
    """`none`, `peak` or `loudness`, with a target as in `loudness=-16`; the target is always spelled out in what comes
    back.
    """
    mode, given, target = str(value).strip().partition("=")
    if mode == "none" and not given:
        return "none"
    if mode not in _LEVELS:
        raise ValueError("none, peak or loudness was expected, with a target as in loudness=-14")
    low, high, default, unit = _LEVELS[mode]
    level = _number(target, low, high, f" ({unit})") if given else default
    return f"{mode}={level:g}"


def parse_on_off(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if str(value).lower() in ("true", "false"):
        return str(value).lower() == "true"
    raise ValueError("true or false was expected")


def one_of(*choices: str) -> Callable[[object], str]:
    def parse(value: object) -> str:
        if str(value) not in choices:
            raise ValueError(f"one of {', '.join(choices)} was expected")
        return str(value)

    return parse


def _text(value: object) -> str:
    return str(value)


def _caption(value: object) -> str:
    if not str(value).strip():
        raise ValueError("a caption was expected, the description of the music; it is empty")
    return str(value)


PRECISIONS = ("fp32", "tf32", "fp16")
"""Of the acoustic stage; what each means on a device is `acoustic/precision.py`'s business."""

SETTINGS: Mapping[str, Setting] = {
    setting.name: setting
    for setting in (
        Setting("title", _text, ""),
        Setting("artist", _text, ""),
        Setting("caption", _caption, None),
        Setting("seed", parse_seed, 0),
        Setting("takes", lambda value: _whole(value, 1, 1000, ""), 1),
        Setting("max_duration", parse_duration, None),
        Setting("steps", lambda value: _whole(value, 1, 1000, " (30 is the model's own)"), 30),
        Setting("shift", lambda value: _number(value, 0.1, 20, " (1 is the model's own)"), 1.0),
        Setting("fast", parse_on_off, False),
        Setting("seed_scheme", one_of("server", "diffusers"), "server"),
        Setting("precision", one_of(*PRECISIONS), "tf32"),
        Setting("talker_weights", one_of("auto", "full", "int8"), "auto"),
        Setting("talker_dtype", one_of("auto", "bf16", "fp32"), "auto"),
        Setting("album", _text, ""),
        Setting("track", parse_track, ""),
        Setting("guidance", lambda value: _number(value, 0, 20, " (1.7 is the model's own)"), 1.7),
        Setting("noise_seed", lambda value: _whole(value, 0, MAX_SEED, ""), None),
        Setting("format", one_of("wav", "flac", "mp3", "ogg", "opus"), None),
        Setting("bit_depth", one_of("16", "24", "float"), None),
        Setting("quality", lambda value: _number(value, 0, 10, " (10 is best)"), None),
        Setting("sample_rate", lambda value: int(one_of("44100", "32000")(value)), None),
        Setting("normalize", parse_normalize, "none"),
        Setting("dither", parse_on_off, True),
    )
}


FAST: Mapping[str, object] = {"steps": 16, "shift": 2.0, "precision": "fp16"}
"""What the setting `fast` stands for."""


def resolve(layers: Sequence[Layer]) -> dict[str, Sourced[Any]]:
    """Every setting with the value of the strongest layer (the first) that has it.

    Where the setting `fast` is on, its source also gives the values of `FAST`: they are weaker than the same source's
    own values, and stronger than any weaker source's.

    Raises:
        UsageError, InputError: a value that the setting does not take, with its source and what was expected.
    """
    resolved: dict[str, Sourced[Any]] = {}
    layers = _with_fast(layers)
    for name, setting in SETTINGS.items():
        resolved[name] = Sourced(setting.default, "built-in")
        for layer in layers:
            if (raw := layer.values.get(name)) is None:
                continue
            where = layer.where[name]
            try:
                resolved[name] = Sourced(setting.parse(raw), where)
            except ValueError as error:
                kind = UsageError if layer.is_flags else InputError
                raise kind(f"{where}: {name.replace('_', ' ')} {_shown(raw)}: {error}") from None
            break
    return resolved


def _with_fast(layers: Sequence[Layer]) -> list[Layer]:
    """The layers with one more behind the strongest that has `fast`, if it is on there."""
    for index, layer in enumerate(layers):
        if (raw := layer.values.get("fast")) is not None:
            try:
                wanted = parse_on_off(raw)
            except ValueError:
                break  # `resolve` says what is wrong
            fast = Layer(FAST, dict.fromkeys(FAST, layer.where["fast"]))
            return [*layers[: index + 1], *([fast] if wanted else []), *layers[index + 1 :]]
    return list(layers)


def _shown(raw: object) -> str:
    text = repr(raw)
    return text if len(text) <= 60 else text[:57] + "..."
