"""`music3 bench`: how fast this machine is at a stage."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from music3_cli.cli import console, options
from music3_cli.cli.bench_acoustic import acoustic
from music3_cli.cli.bench_song import song
from music3_cli.errors import UsageError
from music3_cli.song.limits import FRAME_RATE

app = typer.Typer(help="Measure how fast this machine is.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _root() -> None:
    pass


app.command()(acoustic)
app.command()(song)


@app.command()
def talker(
    checkpoint: options.Checkpoint = None,
    songs: Annotated[str, typer.Option(help="Songs at once, separated by commas.")] = "1,4,8,16",
    contexts: Annotated[str, typer.Option(help="Positions, separated by commas.")] = "500,2000,4000",
    device: options.Device = "auto",
    talker_dtype: Annotated[str, typer.Option(help="auto, bf16 or fp32.")] = "auto",
    no_cuda_graph: options.NoCudaGraph = False,
    peer: options.Peer = None,
    as_json: options.JsonDocument = False,
) -> None:
    """Time the talker's step: milliseconds a frame for several songs at several contexts.

    The limit is the reading of all weights, keys and values once, at the read bandwidth measured in the same run.
    diffusers renders one song, of 100 frames.
    """
    console.configure(as_json=as_json)
    counts, places = _numbers("--songs", songs), _numbers("--contexts", contexts)
    if talker_dtype not in ("auto", "bf16", "fp32"):
        raise UsageError(f"--talker-dtype {talker_dtype}: one of auto, bf16, fp32 was expected")
    from music3_cli.checkpoint.locate import find_checkpoint

    found = find_checkpoint(checkpoint)
    most = found.architecture.backbone.max_position_embeddings
    if max(places) > most:
        raise UsageError(f"--contexts {contexts}: the talker of {found.name} has {most} positions")
    import torch

    from music3_cli.checkpoint.load import load_talker
    from music3_cli.devices import DTYPES, default_talker_dtype, device_name, resolve_device, true_fp32
    from music3_cli.jobs.peer import find_peer
    from music3_cli.talker.bench import TalkerTiming, measure, read_bandwidth

    where = resolve_device(device)
    beside = find_peer(found, where, peer)
    dtype = DTYPES[default_talker_dtype(where) if talker_dtype == "auto" else talker_dtype]
    with torch.inference_mode(), true_fp32():
        bandwidth = read_bandwidth(where) if where.type == "cuda" else 0.0
        console.talk(f"loading the talker of {found.name}")
        loaded = load_talker(found, where, dtype)
        timings: list[TalkerTiming] = []
        for count in counts:
            console.talk(f"timing {count} song{'s' * (count != 1)}")
            timings += measure(loaded, count, places, not no_cuda_graph, bandwidth)
    del loaded
    theirs = None
    if beside:
        console.talk(f"timing {beside.name}")
        theirs = beside.talker(dtype)
    if as_json:
        console.document(
            {
                "device": device_name(where),
                "dtype": str(dtype),
                "read_bytes_a_second": bandwidth,
                "timings": [asdict(timing) for timing in timings],
                "peer": beside.to_json(talker=theirs) if beside else None,
            }
        )
        return
    from rich import box
    from rich.table import Table

    console.data(f"{device_name(where)}, {dtype}, checkpoint {found.name}")
    if bandwidth:
        console.data(f"read bandwidth {bandwidth / 1e12:.2f} TB/s")
    table = Table(
        "songs",
        "context",
        "ms a frame",
        "x real time",
        "limit",
        "of limit",
        "capture",
        "memory",
        "kernels",
        box=box.SIMPLE,
    )
    for t in timings:
        limit = [f"{t.limit_ms:.2f} ms", f"{t.limit_ms / t.frame_ms:.0%}"] if t.limit_ms else ["-", "-"]
        capture = f"{t.capture_s:.1f} s" if t.capture_s else "-"
        of_device = [f"{t.memory_bytes / 2**30:.1f} GiB", str(t.kernels)] if where.type == "cuda" else ["-", "-"]
        row = [str(t.songs), str(t.context), f"{t.frame_ms:.2f}", f"{t.real_time:.1f}", *limit, capture, *of_device]
        table.add_row(*row)
    if beside and theirs:
        row = [f"1, {beside.name}", str(theirs.context), f"{theirs.frame_ms:.2f}"]
        table.add_row(*row, f"{1000 / FRAME_RATE / theirs.frame_ms:.1f}", *["-"] * 5)
    console.show(table)
    if beside and beside.failed:
        console.data(f"{beside.name}: not measured ({beside.failed})")
    alone = [t for t in timings if t.songs == 1]
    if beside and theirs and alone:
        nearest = min(alone, key=lambda t: abs(t.context - theirs.context))
        console.data(f"one song: {theirs.frame_ms / nearest.frame_ms:.1f} times as fast as {beside.name}")


def _numbers(flag: str, text: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise UsageError(f"{flag} {text}: whole numbers from 1 on were expected, separated by commas")
    return numbers
