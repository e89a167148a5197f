"""The flags about lyrics and presets that `render` and `inspect prompt` share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from music3_cli.errors import UsageError

if TYPE_CHECKING:
    from music3_cli.jobs.words import Handling

MODES = ("checked", "as-is")


def handling_of(
    files: Sequence[str] | None,
    mode: str,
    fix: bool,
    strict: bool,
    instrumental: bool,
    set_values: Sequence[str] | None,
) -> Handling:
    """What the flags ask for.

    Raises:
        UsageError: flags that do not fit together, or no lyrics at all.
    """
    from music3_cli.jobs.words import Handling

    if mode not in MODES:
        raise UsageError(f"--lyrics {mode}: one of {', '.join(MODES)} was expected", hint="Lyrics files have no flag.")
    as_is = mode == "as-is"
    if instrumental and files:
        raise UsageError(
            f"--instrumental: it writes its own sheet, and {files[0]} was named too", hint="Leave out one of the two."
        )
    if not instrumental and not files:
        raise UsageError("no lyrics file was named", hint="Name one, - for standard input, or use --instrumental.")
    for name, given in (("--fix-lyrics", fix), ("--strict", strict), ("--instrumental", instrumental)):
        if as_is and given:
            raise UsageError(f"--lyrics as-is and {name}: as-is leaves everything alone", hint="Leave out one of them.")
    stops = ("error", "warning") if strict else ("error",)
    return Handling(as_is, fix, stops, instrumental, parse_set_values(set_values or ()))


def parse_set_values(pairs: Sequence[str]) -> dict[str, str]:
    """`bpm=92` and the like; the last of a key counts.

    Raises:
        UsageError: no `=`, no key or no value.
    """
    values: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (equals and key.strip() and value.strip()):
            raise UsageError(f"--set {pair}: KEY=VALUE was expected, such as bpm=92")
        values[key.strip()] = value.strip()
    return values
