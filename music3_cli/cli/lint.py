"""`music3 lint`: what is wrong with lyrics before a weight is loaded."""

from __future__ import annotations

from typing import Annotated

import typer

from music3_cli.cli import console


def lint(
    files: Annotated[list[str], typer.Argument(help="Lyrics files; - reads standard input.", show_default=False)],
) -> None:
    """Check lyrics files: can they be read, and would the model see every word?"""
    from music3_cli.errors import Music3Error
    from music3_cli.song.lyrics import dropped_words, parse_lyrics
    from music3_cli.song.text import read_text

    code = 0
    for file in files:
        try:
            lyrics = parse_lyrics(read_text(file))
        except Music3Error as error:
            code = console.report(error)
            continue
        for lost in dropped_words(lyrics):
            code = 4
            console.data(
                f"{lyrics.source.name}:{lost.line}:{lost.column}: {lost.words!r} would be dropped: "
                f"words behind the tag {lost.tags} need a line of their own"
            )
    raise typer.Exit(code)
