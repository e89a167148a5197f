"""`music3 render`: lyrics files in, songs out."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from music3_cli.cli import console, options


def render(
    lyrics: Annotated[
        list[str] | None, typer.Argument(help="Lyrics files; - reads standard input.", show_default=False)
    ] = None,
    output: Annotated[
        options.Text, typer.Option("--output", "-o", help="File, folder or template such as out/{id}-{seed}.wav.")
    ] = None,
    caption: Annotated[options.Text, typer.Option(help="Description of the music.")] = None,
    caption_file: Annotated[options.Text, typer.Option(help="File with the description.")] = None,
    preset: Annotated[options.Text, typer.Option(help="Named description; see `music3 presets list`.")] = None,
    set_values: Annotated[
        list[str] | None,
        typer.Option("--set", help="KEY=VALUE for a preset's placeholder, such as bpm=92; repeatable."),
    ] = None,
    instrumental: Annotated[
        bool,
        typer.Option("--instrumental", help="No lyrics: sections for --max-duration (3:00); nobody sings, as a rule."),
    ] = False,
    fix_lyrics: Annotated[
        bool, typer.Option("--fix-lyrics", help="Mend the lyrics as `music3 lint --fix` does; files stay as they are.")
    ] = False,
    lyrics_mode: Annotated[
        str, typer.Option("--lyrics", help="checked, or as-is: no cleaning, no front matter, no lint.")
    ] = "checked",
    strict: Annotated[bool, typer.Option("--strict", help="Lint warnings stop the run too.")] = False,
    seed: Annotated[options.Text, typer.Option(help="0 to 2^64 - 1, or random. [default: 0]")] = None,
    takes: Annotated[
        options.Text, typer.Option(help="Songs of each file; take k uses seed + k - 1. [default: 1]")
    ] = None,
    max_duration: Annotated[
        options.Text,
        typer.Option(help="Ceiling (not a target), such as 210 or 3:30. [default: the model's limit; demo: 12 s]"),
    ] = None,
    steps: options.Steps = None,
    shift: options.Shift = None,
    fast: options.Fast = None,
    guidance: options.Guidance = None,
    noise_seed: Annotated[
        options.Text, typer.Option(help="Another seed for the acoustic stage alone. [default: --seed]")
    ] = None,
    title: Annotated[options.Text, typer.Option(help="Title, for names and tags.")] = None,
    artist: options.Artist = None,
    album: options.Album = None,
    track: Annotated[options.Text, typer.Option(help="Track number such as 3 or 3/12, for tags.")] = None,
    checkpoint: options.Checkpoint = None,
    device: options.Device = "auto",
    acoustic_device: options.AcousticDevice = "same",
    placement: options.Placement = "auto",
    memory_limit: options.MemoryLimit = None,
    talker_weights: options.TalkerWeights = None,
    no_cuda_graph: options.NoCudaGraph = False,
    precision: options.Precision = None,
    talker_dtype: options.TalkerDtype = None,
    seed_scheme: options.SeedScheme = None,
    format: Annotated[
        options.Text,
        typer.Option(help="wav, flac, mp3, ogg (Vorbis) or opus. [default: from the ending of -o, else wav]"),
    ] = None,
    bit_depth: options.BitDepth = None,
    quality: options.Quality = None,
    sample_rate: options.SampleRate = None,
    normalize: options.Normalize = None,
    dither: Annotated[
        bool | None,
        typer.Option("--dither/--no-dither", help="Dither when rounding to 16 or 24 bits. [default: dither]"),
    ] = None,
    keep_codes: Annotated[
        bool, typer.Option("--keep-codes", help="Keep the talker's codes beside the song, for --from-codes.")
    ] = False,
    from_codes: Annotated[
        list[str] | None,
        typer.Option(
            help="Codes file instead of lyrics: the same song with another --steps, --guidance, --noise-seed, format "
            "or rate, without composing it again. Can be given several times.",
            show_default=False,
        ),
    ] = None,
    exact: Annotated[
        bool,
        typer.Option("--exact", help="With --from-codes: frame by frame as at first; slow, and the same to the bit."),
    ] = False,
    on_exists: Annotated[
        str, typer.Option(help="keep a finished song and refuse another one, overwrite, number, or error.")
    ] = "keep",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and load nothing.")] = False,
    show_settings: Annotated[
        bool, typer.Option("--show-settings", help="Show every setting with its source and exit.")
    ] = False,
    as_json: options.JsonLines = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    no_progress: options.NoProgress = False,
) -> None:
    """Render songs from lyrics files.

    A lyrics file may begin with front matter between --- lines: title, artist, caption, preset, seed, max_duration,
    steps, shift, precision, fast. Flags are stronger than front matter, front matter than the preset. Each song is
    written with a .json sidecar that holds everything needed to repeat it.
    """
    console.configure(verbose=verbose, as_json=as_json)
    from music3_cli.errors import UsageError
    from music3_cli.jobs.machine import RunsOn
    from music3_cli.jobs.plan import ON_EXISTS, make_plan
    from music3_cli.jobs.songs import read_songs

    on = RunsOn(device, acoustic_device, placement, memory_limit, not no_cuda_graph)
    if on_exists not in ON_EXISTS:
        raise UsageError(f"--on-exists {on_exists}: one of {', '.join(ON_EXISTS)} was expected")
    flags: dict[str, Any] = {
        "caption": caption,
        "preset": preset,
        "seed": seed,
        "takes": takes,
        "max_duration": max_duration,
        "steps": steps,
        "shift": shift,
        "fast": fast,
        "title": title,
        "artist": artist,
        "precision": precision,
        "talker_dtype": talker_dtype,
        "talker_weights": talker_weights,
        "seed_scheme": seed_scheme,
        "bit_depth": bit_depth,
        "album": album,
        "track": track,
        "guidance": guidance,
        "noise_seed": noise_seed,
        "format": format,
        "quality": quality,
        "sample_rate": sample_rate,
        "normalize": normalize,
        "dither": dither,
    }
    from music3_cli.cli.words import handling_of

    if from_codes:
        from music3_cli.jobs.from_codes import read_code_songs

        words = (lyrics, caption_file, lyrics_mode != "checked", fix_lyrics, instrumental, set_values)
        if any(words):
            raise UsageError("lyrics and what is done with words do not go with --from-codes: the codes have their own")
        songs = read_code_songs(from_codes, flags, exact)
    elif exact:
        raise UsageError("--exact goes with --from-codes only")
    else:
        handling = handling_of(lyrics, lyrics_mode, fix_lyrics, strict, instrumental, set_values)
        songs = read_songs(lyrics or [], flags, caption_file, handling)
    if show_settings:
        from music3_cli.cli.plans import show_song_settings

        show_song_settings(songs, as_json)
        return
    from music3_cli.checkpoint.locate import find_checkpoint

    found = find_checkpoint(checkpoint)
    on.devices()  # a name that is none shows now, not behind a plan
    plan = make_plan(songs, found, on.default_dtype, output, on_exists, keep_codes, on.default_weights)
    from music3_cli.cli.plans import show_plan

    if not quiet or dry_run:
        show_plan(plan, device, as_json, dry_run)
    if dry_run:
        return
    from music3_cli.cli.progress import make_view
    from music3_cli.events import RunFinished
    from music3_cli.jobs.run import run_plan

    code = 0
    with console.guarded_stdout(), make_view(as_json=as_json, quiet=quiet, no_progress=no_progress) as view:
        for event in run_plan(plan, on):
            view.take(event)
            if isinstance(event, RunFinished):
                code = event.exit_code
    raise typer.Exit(code)
