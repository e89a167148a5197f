"""Instrumental songs: a sheet of sections for a wanted duration, and a caption that says so.

The model has no switch for it. Sections that each say (instrumental) and a caption that names a lead instrument make
it likely that nobody sings; it is a tendency, not a promise.
"""

from __future__ import annotations

import re

from music3_cli.song.limits import MAX_FRAMES, frames_to_seconds

DEFAULT_SECONDS = 180.0
"""What a sheet is made for when no duration was asked for."""

DEFAULT_PRESET = "cinematic-orchestral-instrumental"
SECTION_SECONDS = 20.0

_BODY = ("verse", "chorus", "verse", "chorus", "bridge", "solo", "chorus", "instrumental", "verse", "chorus")
_LEADS = (
    *("electric piano", "acoustic guitar", "electric guitar", "slide guitar", "nylon guitar", "guitar", "piano"),
    *("violin", "cello", "saxophone", "trumpet", "trombone", "clarinet", "flute", "harmonica", "accordion", "organ"),
    *("vibraphone", "marimba", "harp", "sitar", "synthesizer", "synth", "strings", "brass"),
)
_DECLARED = re.compile(
    r"\binstrumental\s+(?:piece|track|music|song|composition|from)\b|\b(?:purely|entirely|fully)\s+instrumental\b|\binstrumental\s*[.,;]"
)
_VOCAL_PART = re.compile(r"^([ \t]*vocal details?:?[ \t]*\n)(.*?)(?=^[ \t]*[A-Z][\w ]+:[ \t]*$|\Z)", re.I | re.M | re.S)
_VOCAL_WORDS = re.compile(r"\b(?:(?:fe)?male|vocals?|vocalist|sing(?:er|s|ing)|sung|rapper|choir|voices?)\b", re.I)


def instrumental_sheet(seconds: float | None) -> str:
    """Section tags, each followed by (instrumental), about one for every 20 s of the wanted duration.

    Args:
        seconds: the wanted duration; None for three minutes.
    """
    wanted = min(DEFAULT_SECONDS if seconds is None else seconds, frames_to_seconds(MAX_FRAMES))
    count = round(wanted / SECTION_SECONDS)
    if count < 3:
        tags = ["instrumental", "outro"]
    else:
        tags = ["intro", *(_BODY[index % len(_BODY)] for index in range(count - 2)), "outro"]
    return "\n\n".join(f"[{tag}]\n(instrumental)" for tag in tags) + "\n"


def is_instrumental_caption(caption: str) -> bool:
    """Whether a caption already says that nobody sings."""
    return _DECLARED.search(caption.lower()) is not None


def complete_caption(caption: str) -> str:
    """A caption that says that the song is instrumental and names its lead; unchanged where it does already.

    The part `Vocal Details` is replaced where there is one; else a paragraph is added.
    """
    if is_instrumental_caption(caption):
        return caption
    lowered = caption.lower()
    places = {lead: lowered.find(lead) for lead in _LEADS if lead in lowered}
    lead = min(places, key=lambda name: (places[name], -len(name))) if places else "piano"
    says = (
        f"This is a purely instrumental piece. The lead instrument is the {lead}, which carries the melody "
        "from beginning to end."
    )
    part = _VOCAL_PART.search(caption)
    if part:
        return f"{caption[: part.start(2)]}{says}\n\n{caption[part.end(2) :]}".rstrip() + "\n"
    return f"{caption.rstrip()}\n\nVocal Details:\n{says}\n"


def mentions_singing(caption: str) -> bool:
    """Whether a caption speaks of singers."""
    return _VOCAL_WORDS.search(caption) is not None
