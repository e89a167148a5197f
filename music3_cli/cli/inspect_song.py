"""`music3 inspect song`: a finished file, measured and judged."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from music3_cli.cli import console, options
from music3_cli.song.limits import clock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from music3_cli.audio.inspection import SongFile
    from music3_cli.audio.plot import Sketch


def inspect_song(
    file: Annotated[Path, typer.Argument(help="A sound file; its sidecar is read where there is one.")],
    plot: Annotated[Path | None, typer.Option(help="Draw waveform, spectrogram and levels into this PNG file.")] = None,
    as_json: options.JsonDocument = False,
) -> None:
    """Measure a song's levels and look for faults: clipping, DC offset, silence, a dead channel, an early end.

    Exit code 0 with warnings, 3 where the file is not the whole song or not finite.
    """
    console.configure(as_json=as_json)
    from music3_cli.audio.inspection import measure_file
    from music3_cli.errors import SongsFailedError
    from music3_cli.jobs.inspection import judge
    from music3_cli.jobs.sidecar import read_sidecar

    sketch = _new_sketch(file, plot) if plot else None
    measured = measure_file(file, sketch.push if sketch else None)
    sidecar = read_sidecar(file)
    verdict = judge(measured, sidecar)
    if plot and sketch:
        from music3_cli.audio.plot import draw

        draw(sketch, measured, verdict.seams, [*verdict.errors, *verdict.warnings], plot)
    if as_json:
        findings = {"errors": verdict.errors, "warnings": verdict.warnings, "notes": verdict.notes}
        console.document({**measured.to_json(), **findings, "seams": verdict.seams, "sidecar": sidecar})
    else:
        for line in _lines(measured, sidecar):
            console.data(line)
        for kind in ("errors", "warnings", "notes"):
            for text in getattr(verdict, kind):
                console.data(f"{kind.removesuffix('s')}: {text}")
        if not verdict.errors and not verdict.warnings:
            console.data("no faults found")
        if plot:
            console.talk(f"plot: {plot}")
    if verdict.errors:
        raise typer.Exit(SongsFailedError.exit_code)


def _new_sketch(file: Path, plot: Path) -> Sketch:
    """Everything that could keep the plot from being drawn is found before minutes of measuring."""
    import soundfile

    from music3_cli.audio.plot import Sketch, check_plottable
    from music3_cli.errors import InputError

    check_plottable("--plot", plot, ".png")
    if not file.is_file():
        raise InputError(f"{file}: no such file")
    try:
        info = soundfile.info(file)
    except (OSError, soundfile.LibsndfileError) as error:
        raise InputError(f"{file}: not a readable sound file ({error})") from None
    return Sketch(info.frames, info.channels)


def _lines(measured: SongFile, sidecar: Mapping[str, Any] | None) -> list[str]:
    """The file, its levels, and what its sidecar says of it."""
    faults, levels = measured.faults, measured.levels.to_json()
    head = (
        f"{measured.path}: {clock(faults.seconds)} ({faults.seconds:.3f} s), {measured.sample_rate} Hz, "
        f"{measured.channels} channel{'s' * (measured.channels > 1)}, {measured.container} {measured.subtype}"
    )
    lines = [head]
    units = {"integrated_lufs": "LUFS integrated", "true_peak_dbtp": "dBTP true peak", "sample_peak_dbfs": "dBFS peak"}
    lines.append("  " + ", ".join(f"{levels[name]} {unit}" for name, unit in units.items() if levels[name] is not None))
    if sidecar:
        song, result = sidecar.get("song", {}), sidecar.get("result", {})
        title = f"{song.get('title') or song.get('id')}" + (f" by {song['artist']}" if song.get("artist") else "")
        windows = len(result.get("seams", ())) + 1
        lines.append(
            f"  {title}, seed {song.get('seed')}, take {song.get('take')}, {result.get('frames')} frames in {windows} "
            f"window{'s' * (windows > 1)}, checkpoint {sidecar.get('checkpoint', {}).get('name')}, "
            f"finish reason {result.get('finish_reason')}"
        )
        if gain := sidecar.get("levels", {}).get("gain_db"):
            lines.append(f"  gain {gain:+.2f} dB ({sidecar.get('settings', {}).get('normalize')})")
        if command := sidecar.get("repeat"):
            lines.append(f"  to repeat it: {_shorten(command) if console.on_terminal() else command}")
    return lines


def _shorten(command: str) -> str:
    """A caption can be a page long; a pipe and `--json` have all of it."""
    return command if len(command) <= 240 else f"{command[:100]} … {command[-100:]}"
