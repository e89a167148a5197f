"""`music3 bench song`: whole songs from start to end, with the weights loaded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from music3_cli.cli import console, options

if TYPE_CHECKING:
    from music3_cli.jobs.bench import SongTiming

SHEET = """[Intro]
[Verse]
Walk the long road under the morning sky
Every window a lantern, every gate a friend
[Chorus]
Carry me over, carry me home
[Verse]
Rain on the station, light on the stone
[Chorus]
Carry me over, carry me home
[Outro]
"""


def song(
    checkpoint: options.Checkpoint = None,
    seconds: Annotated[float, typer.Option(help="Ceiling of each song.")] = 240,
    songs: Annotated[int, typer.Option(help="Songs, with seeds 0, 1, ...", min=1)] = 1,
    steps: Annotated[str | None, typer.Option(help="Euler steps a window. [default: 30]")] = None,
    precision: options.Precision = None,
    talker_dtype: Annotated[str | None, typer.Option(help="bf16 or fp32.")] = None,
    talker_weights: options.TalkerWeights = None,
    device: options.Device = "auto",
    acoustic_device: options.AcousticDevice = "same",
    placement: options.Placement = "auto",
    memory_limit: options.MemoryLimit = None,
    no_cuda_graph: options.NoCudaGraph = False,
    peer: options.Peer = None,
    timeline: Annotated[Path | None, typer.Option(help="Draw both stages over time into this .png or .svg.")] = None,
    as_json: options.JsonDocument = False,
) -> None:
    """Time whole songs, from the first token to the last file, with the weights loaded.

    A first short song, which is not counted, brings kernels and libraries to work. Songs go on to the ceiling unless
    the model ends them; the report says how they ended. The limits are those of `bench talker` and `bench acoustic`,
    measured first. What diffusers would take is extrapolated from its frame and its window.
    """
    console.configure(as_json=as_json)
    if timeline is not None:
        from music3_cli.audio.plot import check_plottable

        check_plottable("--timeline", timeline, ".png", ".svg")
    import tempfile
    from dataclasses import asdict

    from music3_cli.checkpoint.locate import find_checkpoint
    from music3_cli.cli.progress import make_view
    from music3_cli.devices import DTYPES
    from music3_cli.jobs.bench import draw_timeline, time_songs
    from music3_cli.jobs.machine import RunsOn
    from music3_cli.jobs.peer import find_peer

    found = find_checkpoint(checkpoint)
    on = RunsOn(device, acoustic_device, placement, memory_limit, not no_cuda_graph)
    where, _ = on.devices()
    beside = find_peer(found, where, peer)
    settings: dict[str, object] = {
        "steps": steps,
        "precision": precision,
        "talker_dtype": talker_dtype,
        "talker_weights": talker_weights,
    }
    with tempfile.TemporaryDirectory() as folder:
        sheet = Path(folder) / "bench.txt"
        sheet.write_text(SHEET, encoding="utf-8")
        with make_view(as_json=False, quiet=False, no_progress=False) as view:
            timing = time_songs(found, on, str(sheet), seconds, songs, settings, view.take)
    theirs = None
    if beside:
        console.talk(f"timing {beside.name}")
        dtype = DTYPES[timing.talker_dtype]
        theirs = beside.songs(dtype, timing.precision, timing.steps, timing.frames, timing.windows)
    if as_json:
        about = {"checkpoint": found.name, "real_time": timing.real_time, **asdict(timing)}
        console.document({**about, "peer": beside.to_json(songs=theirs) if beside else None})
    else:
        _show(timing, songs)
        if beside and beside.failed:
            console.data(f"{beside.name}: not measured ({beside.failed})")
        if beside and theirs:
            console.data(
                f"{beside.name}: {theirs.seconds:.1f} s for as much, {theirs.seconds / timing.seconds:.1f} times as "
                f"long (extrapolated: {theirs.talker.frame_ms:.1f} ms a frame, {theirs.window.window_s:.2f} s a window "
                f"in {theirs.window.precision}, {theirs.window.vocoder_ms:.0f} ms for its sound)"
            )
    if timeline is not None:
        draw_timeline(timing, timeline, f"{songs} song{'s' * (songs != 1)}, {timing.placement}")


def _show(timing: SongTiming, songs: int) -> None:
    console.data(f"placement: {timing.placement}")
    console.data(f"weights loaded in {timing.load_seconds:.1f} s, warmed up in {timing.warm_up_seconds:.1f} s")
    console.data(
        f"{songs} song{'s' * (songs != 1)}, {timing.frames} frames, {timing.windows} windows: "
        f"{timing.audio_seconds:.1f} s of sound in {timing.seconds:.1f} s, {timing.real_time:.2f}x real time"
    )
    console.data(
        f"talker at work {timing.talker_seconds:.1f} s, acoustic stage {timing.acoustic_seconds:.1f} s, both at once "
        f"{timing.overlap_seconds:.1f} s; first file after {timing.first_file_seconds:.1f} s"
    )
    reading = f"talker {timing.talker_limit:.1f} s for its reading, " if timing.talker_limit else ""
    console.data(f"limits: {reading}acoustic stage {timing.acoustic_limit:.1f} s for its arithmetic")
    if timing.peak_bytes:
        console.data(f"peak {timing.peak_bytes / 2**30:.1f} GiB on a device")
    console.data(f"ended: {', '.join(timing.finish_reasons)}")
