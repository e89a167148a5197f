"""`music3 inspect`: look into a checkpoint, a prompt or a song without rendering."""

from __future__ import annotations

import typer

from music3_cli.cli.inspect_checkpoint import inspect_checkpoint
from music3_cli.cli.inspect_prompt import inspect_prompt
from music3_cli.cli.inspect_song import inspect_song

app = typer.Typer(
    help="Look into a checkpoint, a prompt or a song without rendering.", no_args_is_help=True, rich_markup_mode=None
)

app.command("checkpoint")(inspect_checkpoint)
app.command("song")(inspect_song)


app.command("prompt")(inspect_prompt)
