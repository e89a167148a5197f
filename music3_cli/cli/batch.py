"""`music3 batch`: a manifest of many songs in, a folder of songs out, whatever happens in between."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from music3_cli.cli import console, options

if TYPE_CHECKING:
    from music3_cli.jobs.batch.plan import BatchPlan, Choices
    from music3_cli.jobs.batch.run import How
    from music3_cli.jobs.executors.foreman import Stop


def batch(
    manifest: Annotated[str, typer.Argument(help="YAML, JSON, JSONL or CSV; see docs/manifest.md.")],
    output: Annotated[
        options.Text,
        typer.Option(
            "--output",
            "-o",
            help="Folder, or a template such as out/{index}-{title}.{ext}. [default: the manifest's name]",
        ),
    ] = None,
    preset: Annotated[options.Text, typer.Option(help="For every song, whatever the manifest says.")] = None,
    seed: Annotated[options.Text, typer.Option(help="For every song.")] = None,
    takes: Annotated[options.Text, typer.Option(help="For every song.")] = None,
    max_duration: Annotated[options.Text, typer.Option(help="Ceiling of every song, such as 3:30.")] = None,
    steps: options.Steps = None,
    shift: options.Shift = None,
    fast: options.Fast = None,
    guidance: options.Guidance = None,
    precision: options.Precision = None,
    talker_dtype: options.TalkerDtype = None,
    seed_scheme: options.SeedScheme = None,
    format: Annotated[options.Text, typer.Option(help="wav, flac, mp3, ogg (Vorbis) or opus.")] = None,
    bit_depth: options.BitDepth = None,
    quality: options.Quality = None,
    sample_rate: options.SampleRate = None,
    normalize: options.Normalize = None,
    album: options.Album = None,
    artist: options.Artist = None,
    keep_codes: Annotated[bool, typer.Option("--keep-codes", help="Keep the codes of every song.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Lint warnings make a song invalid too.")] = False,
    skip_invalid: Annotated[
        bool, typer.Option("--skip-invalid", help="Render what is valid, and end with 3 if anything is not.")
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option(help="Only this song (all takes) or take; repeatable, * allowed.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Render at most so many songs now.")] = None,
    shard: Annotated[
        options.Text, typer.Option(help="I/N: only every N-th take from the I-th on, for N runs beside each other.")
    ] = None,
    on_exists: Annotated[
        str, typer.Option(help="update (keep what is the same, render again what changed), overwrite, or error.")
    ] = "update",
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="Begin no song after one has failed.")] = False,
    retries: Annotated[
        int, typer.Option(min=0, help="Tries again after faults of the machine (a worker killed, a full disk).")
    ] = 1,
    on_interrupt: Annotated[
        str,
        typer.Option(
            help="What the first Ctrl-C, SIGTERM or loss of the terminal does to songs that run: finish or drop. "
            "The code is 130 either way."
        ),
    ] = "finish",
    checkpoint: options.Checkpoint = None,
    device: Annotated[options.Text, typer.Option(help="auto, cpu, cuda or cuda:N. [default: auto]")] = None,
    devices: Annotated[
        options.Text, typer.Option(help="Several, such as cuda:0,cuda:1: an engine each, in processes of their own.")
    ] = None,
    executor: Annotated[str, typer.Option(help="local, or ray: an engine on each GPU of a cluster.")] = "local",
    ray_address: Annotated[
        options.Text, typer.Option(help="Of a running Ray cluster, or auto. [default: one on this machine]")
    ] = None,
    acoustic_device: options.AcousticDevice = "same",
    placement: options.Placement = "auto",
    memory_limit: options.MemoryLimit = None,
    talker_weights: options.TalkerWeights = None,
    no_cuda_graph: options.NoCudaGraph = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan; load and write nothing.")] = False,
    as_json: options.JsonLines = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    no_progress: options.NoProgress = False,
) -> None:
    """Render the songs of a manifest into a folder.

    Everything is read and checked before a weight is loaded. The folder is the state: run the same command again, and
    it renders what is missing or changed and keeps the rest. One song's failure does not touch the others.
    """
    console.configure(verbose=verbose, as_json=as_json)
    from music3_cli.errors import UsageError
    from music3_cli.jobs.batch.plan import ON_EXISTS, Choices, Shard
    from music3_cli.jobs.batch.run import How, check_how
    from music3_cli.jobs.executors.foreman import Stop
    from music3_cli.jobs.machine import RunsOn

    for flag, value, choices in (
        ("--on-exists", on_exists, ON_EXISTS),
        ("--on-interrupt", on_interrupt, ("finish", "drop")),
    ):
        if value not in choices:
            raise UsageError(f"{flag} {value}: one of {', '.join(choices)} was expected")
    if device is not None and devices is not None:
        raise UsageError("--device and --devices: one of them was expected")
    named = tuple(part.strip() for part in (devices or device or "auto").split(",") if part.strip())
    if executor == "ray" and named == ("auto",):
        named = ("cuda",)
    on = RunsOn("auto", acoustic_device, placement, memory_limit, not no_cuda_graph)
    how = How(named or ("auto",), executor, ray_address, on, retries, fail_fast)
    check_how(how)
    flags: dict[str, Any] = {
        "preset": preset,
        "seed": seed,
        "takes": takes,
        "max_duration": max_duration,
        "steps": steps,
        "guidance": guidance,
        "shift": shift,
        "fast": fast,
        "precision": precision,
        "talker_dtype": talker_dtype,
        "talker_weights": talker_weights,
        "seed_scheme": seed_scheme,
        "format": format,
        "bit_depth": bit_depth,
        "quality": quality,
        "sample_rate": sample_rate,
        "normalize": normalize,
        "album": album,
        "artist": artist,
    }
    chosen = Choices(on_exists, keep_codes, Shard.parse(shard) if shard is not None else Shard(), only or (), limit)
    plan = _plan(Path(manifest), flags, strict, checkpoint, output, chosen, how)
    from music3_cli.cli.batch_plans import show_batch_plan
    from music3_cli.errors import raise_all

    if dry_run:
        show_batch_plan(plan, ", ".join(how.devices), as_json)
    if plan.clashes or (plan.errors and not skip_invalid):
        raise_all(plan.errors)
    if dry_run:
        if plan.errors:
            raise typer.Exit(3)
        return
    raise typer.Exit(_run(plan, how, Stop(on_interrupt), as_json=as_json, quiet=quiet, no_progress=no_progress))


def _plan(
    manifest: Path,
    flags: dict[str, Any],
    strict: bool,
    checkpoint: str | None,
    output: str | None,
    choices: Choices,
    how: How,
) -> BatchPlan:
    from music3_cli.checkpoint.locate import find_checkpoint
    from music3_cli.errors import CheckpointError, ManyErrors
    from music3_cli.jobs.batch.plan import make_batch_plan
    from music3_cli.jobs.manifest_songs import read_manifest_songs

    def default_dtype() -> str:
        if how.executor == "ray":  # whose GPUs are not here
            return "fp32" if how.devices[0] == "cpu" else "bf16"
        return how.first.default_dtype()

    def default_weights() -> str:
        return "full" if how.executor == "ray" else how.first.default_weights(found)

    songs = read_manifest_songs(manifest, flags, strict)
    try:
        found = find_checkpoint(checkpoint)
    except CheckpointError as error:
        if songs.errors:  # they can be mended before there is a checkpoint
            raise ManyErrors([*songs.errors, error]) from None
        raise
    how.check_devices()
    return make_batch_plan(songs, found, default_dtype, default_weights, output, choices)


def _run(plan: BatchPlan, how: How, stop: Stop, *, as_json: bool, quiet: bool, no_progress: bool) -> int:
    from music3_cli.cli.batch_plans import show_summary
    from music3_cli.cli.batch_progress import BatchBars, BatchLines
    from music3_cli.cli.progress import make_view
    from music3_cli.cli.signals import graceful
    from music3_cli.events import PageWritten, RunFinished
    from music3_cli.jobs.batch.run import run_batch

    code, page = 0, None
    with (
        console.guarded_stdout(),  # before live bars, which take stdout for themselves
        make_view(as_json=as_json, quiet=quiet, no_progress=no_progress, lines=BatchLines, live=BatchBars) as view,
        graceful(stop),
        closing(run_batch(plan, how, stop)) as events,
    ):
        for event in events:
            view.take(event)
            if isinstance(event, PageWritten):
                page = event.path
            if isinstance(event, RunFinished):
                code = event.exit_code
    if not as_json and not quiet:
        show_summary(plan, page)
    return code
