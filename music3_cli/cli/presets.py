"""`music3 presets`: what captions there are under a name."""

from __future__ import annotations

from typing import Annotated

import typer

from music3_cli.cli import console

app = typer.Typer(
    help="Named captions: list them, show one, tell where it lies.", no_args_is_help=True, rich_markup_mode=None
)

Json = Annotated[bool, typer.Option("--json", help="A JSON document instead of text.")]
Name = Annotated[str, typer.Argument(help="The preset's name.")]


@app.command("list")
def list_presets(as_json: Json = False) -> None:
    """List all presets, packaged and your own."""
    from music3_cli.song.presets import load_preset, preset_paths

    presets = [load_preset(name) for name in preset_paths()]
    if as_json:
        console.document(
            [
                {
                    "name": p.name,
                    "description": p.description,
                    "vocal": p.vocal,
                    "packaged": p.packaged,
                    "path": str(p.path),
                }
                for p in presets
            ]
        )
        return
    from rich import box
    from rich.table import Table

    table = Table("name", "vocal", "what it is", box=box.SIMPLE)
    for preset in presets:
        table.add_row(preset.name, preset.vocal, preset.description + ("" if preset.packaged else " (yours)"))
    console.show(table)


@app.command()
def show(name: Name) -> None:
    """Print a preset's caption with its placeholders filled in."""
    from music3_cli.song.presets import load_preset

    console.data(load_preset(name).filled_caption())


@app.command()
def path(name: Name) -> None:
    """Print the file that a preset lies in."""
    from music3_cli.song.presets import load_preset

    console.data(str(load_preset(name).path))
