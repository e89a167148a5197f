"""A request's labels: the tags of its file, and the command that repeats it. Neither is part of a song's key."""

from __future__ import annotations

import shlex
from pathlib import Path

from music3_cli import __version__
from music3_cli.audio.tags import AI_GENERATED, Tags
from music3_cli.checkpoint.inventory import Checkpoint
from music3_cli.song.codes import CODES_ENDING
from music3_cli.song.delivery import DEFAULT_QUALITY, FORMATS, Delivery
from music3_cli.song.limits import frames_to_seconds
from music3_cli.song.request import SongRequest
from music3_cli.song.settings import SETTINGS

MODEL = "MiniMax-Music3"


def tags_of(request: SongRequest, checkpoint: Checkpoint) -> Tags:
    """Everything from the request and the checkpoint: the same alone and in a batch, in any folder."""
    model = f"{MODEL} demo checkpoint (random weights)" if checkpoint.is_demo else MODEL
    return Tags(
        title=request.title or _name_of(request.source),
        artist=request.artist,
        album=request.album,
        track=request.track,
        seed=str(request.seed),
        model=model,
        revision=_revision(checkpoint),
        encoder=f"music3 {__version__}",
        comment=f"{AI_GENERATED} with {model}. To repeat it:\n{repeat_command(request, checkpoint)}",
        lyrics=request.lyrics,
        more=request.tags,
    )


def _name_of(source: str) -> str:
    """A title for songs without one: the lyrics file's name, which unlike the song's id knows nothing of takes and
    neighbours.
    """
    name = source.removesuffix(CODES_ENDING)
    return "" if name == "<stdin>" else Path(name).stem


def _revision(checkpoint: Checkpoint) -> str:
    """The hub's commit where the folder is one of its snapshots, else the weights' digest."""
    if checkpoint.root.parent.name == "snapshots":
        return checkpoint.root.name
    return f"digest {checkpoint.digest[:16]}"


def repeat_command(request: SongRequest, checkpoint: Checkpoint) -> str:
    """The shell command that gives the same samples, with file names but no folders."""
    words = ["music3", "render"]
    settings = request.model_settings()
    if request.codes is None:
        words += request.words_flags
        if "--instrumental" not in request.words_flags:
            words += [request.source if request.source != "<stdin>" else "-"]
        defaults = {
            name: setting.default
            for name, setting in SETTINGS.items()
            if name not in ("seed", "talker_dtype", "talker_weights")
        }
    else:
        words += ["--from-codes", request.source] + (["--exact"] if request.exact else [])
        defaults = dict(request.codes.record["settings"])
    for name, value in settings.items():
        if name in ("lyrics", "max_frames") or value is None or value == defaults.get(name):
            continue
        words += [_flag(name), str(value)]
    if request.codes is None:
        words += ["--max-duration", f"{frames_to_seconds(request.max_frames):g}"]
    for name in ("title", "artist", "album", "track"):
        if value := getattr(request, name):
            words += [_flag(name), value]
    words += _delivery_flags(request.delivery)
    if checkpoint.is_demo:
        words += ["--checkpoint", "demo"]
    return shlex.join(words)


def _delivery_flags(delivery: Delivery) -> list[str]:
    """Flags for what is not the default of its format."""
    format = FORMATS[delivery.format]
    flags = [] if delivery.format == Delivery().format else ["--format", delivery.format]
    if delivery.bit_depth is not None and delivery.bit_depth != format.bit_depths[0]:
        flags += ["--bit-depth", delivery.bit_depth]
    if delivery.quality is not None and delivery.quality != DEFAULT_QUALITY:
        flags += ["--quality", f"{delivery.quality:g}"]
    if delivery.sample_rate != format.rates[0]:
        flags += ["--sample-rate", str(delivery.sample_rate)]
    if delivery.normalize != "none":
        flags += ["--normalize", delivery.normalize]
    return flags + (["--no-dither"] if delivery.dither is False else [])


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
