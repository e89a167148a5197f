"""`music3 inspect`: look into a checkpoint, a prompt or a song without rendering."""

from __future__ import annotations

from typing import Annotated

import typer

from music3_cli.cli import console
from music3_cli.cli.inspect_checkpoint import inspect_checkpoint
from music3_cli.cli.inspect_song import inspect_song

app = typer.Typer(
    help="Look into a checkpoint, a prompt or a song without rendering.", no_args_is_help=True, rich_markup_mode=None
)

Json = Annotated[bool, typer.Option("--json", help="A JSON document instead of text.")]
CheckpointOption = Annotated[str | None, typer.Option(help="Folder, demo, or REPO[@REV] in the hub's cache.")]


app.command("checkpoint")(inspect_checkpoint)
app.command("song")(inspect_song)


@app.command("prompt")
def inspect_prompt(
    lyrics: Annotated[str, typer.Argument(help="A lyrics file; - reads standard input.")],
    caption: Annotated[str | None, typer.Option(help="Description of the music.")] = None,
    preset: Annotated[str | None, typer.Option(help="Named description.")] = None,
    checkpoint: CheckpointOption = None,
    as_json: Json = False,
) -> None:
    """Show the prompt that the model will read: cleaned, normalised and counted."""
    from music3_cli.checkpoint.locate import find_checkpoint
    from music3_cli.jobs.plan import read_songs
    from music3_cli.song.prompt import PromptTokenizer, frames_left

    song = read_songs([lyrics], {"caption": caption, "preset": preset}, None)[0]
    found = find_checkpoint(checkpoint)
    prompt = PromptTokenizer.from_file(found.tokenizer_file).prompt(song.value("caption"), song.lyrics.text)
    left = max(0, frames_left(prompt, found.architecture.backbone.max_position_embeddings))
    if as_json:
        console.document({"text": prompt.text, "tokens": len(prompt.ids), "ids": list(prompt.ids), "frames_left": left})
        return
    console.data(prompt.text)
    console.talk(f"{len(prompt.ids)} tokens; the context leaves {left} frames")
    for warning in song.warnings:
        console.talk(f"warning: {warning}")
