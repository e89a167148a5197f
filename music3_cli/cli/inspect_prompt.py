"""`music3 inspect prompt`: what the model will really see of lyrics and caption."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from music3_cli.cli import console, options

if TYPE_CHECKING:
    from music3_cli.song.prompt import PromptTokenizer

Mark = Literal[" ", "-", "+"]


class ShownLine(NamedTuple):
    """A line of the prompt: as it was written, dropped or changed (`-`), or put in by the model's contract (`+`)."""

    mark: Mark
    text: str


def inspect_prompt(
    lyrics: Annotated[
        list[str] | None, typer.Argument(help="A lyrics file; - reads standard input.", show_default=False)
    ] = None,
    caption: Annotated[options.Text, typer.Option(help="Description of the music.")] = None,
    caption_file: Annotated[options.Text, typer.Option(help="File with the description.")] = None,
    preset: Annotated[options.Text, typer.Option(help="Named description.")] = None,
    set_values: Annotated[
        list[str] | None, typer.Option("--set", help="KEY=VALUE for a preset's placeholder; repeatable.")
    ] = None,
    max_duration: Annotated[options.Text, typer.Option(help="Ceiling, such as 210 or 3:30.")] = None,
    instrumental: Annotated[bool, typer.Option("--instrumental", help="The sheet that render would build.")] = False,
    fix_lyrics: Annotated[bool, typer.Option("--fix-lyrics", help="Mend the lyrics first.")] = False,
    lyrics_mode: Annotated[str, typer.Option("--lyrics", help="checked, or as-is.")] = "checked",
    checkpoint: options.Checkpoint = None,
    ids: Annotated[bool, typer.Option("--ids", help="Print the token ids too.")] = False,
    as_json: options.JsonDocument = False,
) -> None:
    """Show the prompt that the model will read: cleaned, normalised and counted.

    Lines marked - are what was written and will not be seen so; lines marked + are what is seen instead.
    """
    console.configure(as_json=as_json)
    from dataclasses import replace

    from music3_cli.cli.words import handling_of
    from music3_cli.errors import CheckpointError, UsageError
    from music3_cli.jobs.songs import read_songs
    from music3_cli.song.caption import clean_caption
    from music3_cli.song.estimate import estimate_tokens, song_length
    from music3_cli.song.limits import CONTEXT, MAX_FRAMES, clock, frames_to_seconds
    from music3_cli.song.lyrics import normalize_lyrics
    from music3_cli.song.prompt import prompt_text

    if lyrics is not None and len(lyrics) > 1:
        raise UsageError(f"{len(lyrics)} files were named; inspect prompt takes one")
    handling = handling_of(lyrics, lyrics_mode, fix_lyrics, False, instrumental, set_values)
    flags = {"caption": caption, "preset": preset, "max_duration": max_duration}
    song = read_songs(lyrics or [], flags, caption_file, replace(handling, stops=()))[0]
    try:
        tokenizer, context = _tokenizer(checkpoint)
    except CheckpointError:
        if checkpoint is not None or ids:
            raise
        tokenizer, context = None, CONTEXT
    caption_text, lyrics_text = song.value("caption"), song.lyrics.text
    seen_caption, seen_lyrics = clean_caption(caption_text), normalize_lyrics(lyrics_text)
    count = (lambda text: len(tokenizer.encode(text))) if tokenizer is not None else estimate_tokens
    text = prompt_text(caption_text, lyrics_text)
    parts = {"caption": count(seen_caption), "lyrics": count(seen_lyrics), "marks": 7}
    token_ids = list(tokenizer.encode(text)) if tokenizer is not None else []
    total = len(token_ids) if token_ids else sum(parts.values())
    left = max(0, min(MAX_FRAMES, context - total - 1))
    # What is seen is what is sung: words that the contract drops take no time.
    length = song_length(seen_lyrics.removeprefix("[start]\n"))
    shown_caption = list(_marked(caption_text, seen_caption))
    shown_lyrics = list(_marked(lyrics_text, seen_lyrics))
    if as_json:
        console.document(
            {
                "text": text,
                "tokens": total,
                "exact": tokenizer is not None,
                "parts": parts,
                "ids": token_ids,
                "frames_left": left,
                "length": {
                    "seconds": [round(length.low, 1), round(length.typical, 1), round(length.high, 1)],
                    "basis": length.basis,
                },
                "changes": {
                    "caption": [line._asdict() for line in shown_caption if line.mark != " "],
                    "lyrics": [line._asdict() for line in shown_lyrics if line.mark != " "],
                },
                "caption_source": song.settings["caption"].source,
                "notes": list(song.notes),
                "warnings": list(song.warnings),
            }
        )
        return
    about = "" if tokenizer is not None else "about "
    facts = [
        ("caption", f"from {song.settings['caption'].source}"),
        ("tokens", f"{about}{total}: caption {parts['caption']}, lyrics {parts['lyrics']}, marks {parts['marks']}"),
        ("room", f"{about}{left} frames, {clock(frames_to_seconds(left))} of sound"),
        ("length", f"{length.text}, {clock(length.typical)} as a rule (an estimate: {length.basis})"),
    ]
    if tokenizer is None:
        facts.append(("counted", "without a tokenizer, by rule of thumb; name a --checkpoint for exact numbers"))
    if ids:
        facts.append(("ids", " ".join(map(str, token_ids))))
    _show(
        [
            ShownLine(" ", "<|im_start|><|caption_start|>"),
            *shown_caption,
            ShownLine(" ", "<|caption_end|><|lyrics_start|>"),
            *shown_lyrics,
            ShownLine(" ", "<|lyrics_end|>"),
            ShownLine(" ", "<|im_end|><|audio_start|>"),
        ],
        facts,
    )
    for line in (*(f"note: {note}" for note in song.notes), *(f"warning: {text}" for text in song.warnings)):
        console.tell(line)


def _tokenizer(wanted: str | None) -> tuple[PromptTokenizer, int]:
    from music3_cli.checkpoint.locate import find_checkpoint
    from music3_cli.song.prompt import PromptTokenizer

    found = find_checkpoint(wanted)
    context = found.architecture.backbone.max_position_embeddings
    return PromptTokenizer.from_file(found.tokenizer_file), context


def _marked(written: str, seen: str) -> Iterator[ShownLine]:
    """The lines of `seen`, with the lines of `written` that they replace before them."""
    from difflib import SequenceMatcher

    before, after = written.split("\n"), seen.split("\n")
    for kind, first, last, start, end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "equal":
            yield from (ShownLine(" ", line) for line in after[start:end])
            continue
        # Pairs stand together: each line that was written, then what became of it.
        lines_before, lines_after = before[first:last], after[start:end]
        extra = len(lines_after) - len(lines_before)
        yield from (ShownLine("+", line) for line in lines_after[: max(0, extra)])
        paired = lines_after[max(0, extra) :]
        for index, line in enumerate(lines_before):
            yield ShownLine("-", line)
            if index < len(paired):
                yield ShownLine("+", paired[index])


def _show(lines: Sequence[ShownLine], facts: Sequence[tuple[str, str]]) -> None:
    from music3_cli.song.text import visible

    if not console.on_terminal():
        for line in lines:
            console.data(f"{line.mark} {visible(line.text)}")
        console.data("")
        for name, fact in facts:
            console.data(f"{name}: {fact}")
        return
    from rich.table import Table
    from rich.text import Text as Styled

    styles: dict[Mark, str] = {" ": "", "-": "red", "+": "green"}
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=1)
    grid.add_column(overflow="fold")
    for line in lines:
        is_mark = line.mark == " " and line.text.startswith("<|")
        style = "dim" if is_mark else styles[line.mark]
        grid.add_row(Styled(line.mark, style=style), Styled(visible(line.text), style=style))
    console.show(grid)
    table: Any = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, fact in facts:
        table.add_row(name, Styled(fact))
    console.data("")
    console.show(table)
