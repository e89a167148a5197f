"""`music3 presets`: look at presets, packaged ones and the user's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from music3_cli.cli import console

if TYPE_CHECKING:
    from music3_cli.song.presets import Preset

app = typer.Typer(
    help="Named captions: list them, show one, tell where it lies.", no_args_is_help=True, rich_markup_mode=None
)

Json = Annotated[bool, typer.Option("--json", help="A JSON document instead of text.")]
Name = Annotated[str, typer.Argument(help="The preset's name.")]

_NARROW = 100
"""Columns below which a table of presets has no room for descriptions."""


@app.command("list")
def list_presets(as_json: Json = False) -> None:
    """List all presets, packaged and your own, which override packaged ones of the same name.

    A preset of your own that cannot be read is told about and left out.
    """
    console.configure(as_json=as_json)
    from music3_cli.errors import InputError
    from music3_cli.song.presets import load_preset, preset_paths, user_folder

    presets, broken = [], []
    for name in preset_paths():
        try:
            presets.append(load_preset(name))
        except InputError as error:
            broken.append((name, error))
    if as_json:
        console.document(
            [
                *(_as_json(preset) for preset in presets),
                *({"name": name, "error": fault.message, "hint": fault.hint} for name, fault in broken),
            ]
        )
        return
    _show(presets)
    for name, fault in broken:
        console.tell(f"{name}: left out: {fault.message}" + (f" ({fault.hint})" if fault.hint else ""))
    console.tell(f"{len(presets)} presets; put your own into {user_folder()}")


def _as_json(preset: Preset) -> dict[str, object]:
    return {
        "name": preset.name,
        "description": preset.description,
        "vocal": preset.vocal,
        "placeholders": dict(preset.placeholders),
        "settings": dict(preset.settings),
        "packaged": preset.packaged,
        "path": str(preset.path),
    }


def _show(presets: Sequence[Preset]) -> None:
    if not console.on_terminal():
        for preset in presets:
            console.data(f"{preset.name}\t{preset.vocal}\t{_told(preset)}")
        return
    from rich import box
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    if console.width() >= _NARROW:
        table = Table("name", "vocal", "what it is", box=box.SIMPLE)
        for preset in presets:
            table.add_row(Text(preset.name), Text(preset.vocal), Text(_told(preset)))
        console.show(table)
        return
    for preset in presets:
        console.show(Text(preset.name, style="bold"))
        console.show(Padding(Text(f"{preset.vocal}: {_told(preset)}"), (0, 0, 0, 2)))


def _told(preset: Preset) -> str:
    return preset.description + ("" if preset.packaged else " (yours)")


@app.command()
def show(
    name: Name,
    set_values: Annotated[
        list[str] | None, typer.Option("--set", help="KEY=VALUE for a placeholder, such as bpm=92; repeatable.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print a preset's caption with its placeholders filled in, and tell which there are."""
    console.configure(as_json=as_json)
    from music3_cli.cli.words import parse_set_values
    from music3_cli.errors import InputError, UsageError
    from music3_cli.song.presets import load_preset

    preset = load_preset(name)
    try:
        caption = preset.filled_caption(parse_set_values(set_values or ()))
    except InputError as error:
        raise UsageError(f"--set: {error.message}", hint=error.hint) from None
    if as_json:
        console.document({**_as_json(preset), "caption": caption})
        return
    console.data(caption)
    for key, value in preset.placeholders.items():
        console.talk(f"--set {key}=…  default: {value}")
    for key, setting in preset.settings.items():
        console.talk(f"sets {key}: {setting}")


@app.command()
def path(name: Name) -> None:
    """Print the file that a preset lies in."""
    from music3_cli.song.presets import find_preset

    console.data(str(find_preset(name)[0]))
