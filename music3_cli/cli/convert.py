"""`music3 convert`: the native packaging into the modular one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from music3_cli.cli import console, options

if TYPE_CHECKING:
    from music3_cli.checkpoint.compare import Comparison

_SHOWN = 20


def convert(
    native: Annotated[
        str, typer.Argument(help="Folder with qwen_7B/, flowmatching_vae.pth and dav.pth.", show_default=False)
    ],
    dest: Annotated[str, typer.Argument(help="Folder to make; it must not exist.", show_default=False)],
    check: Annotated[
        str | None,
        typer.Option(metavar="OTHER", help="Compare the result tensor by tensor with this modular checkpoint."),
    ] = None,
    configs: Annotated[
        str | None,
        typer.Option(
            metavar="MODULAR", help="Modular checkpoint to take the configs from. [default: the released sizes]"
        ),
    ] = None,
    as_json: options.JsonLines = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    no_progress: options.NoProgress = False,
) -> None:
    """Re-lay the native packaging as the modular one, which music3 renders from. Nothing numerical happens.

    Streams: memory stays far below the weights' size. The folder appears under its name when it is whole and verified.
    Torch files are read as tensors only; nothing in them is executed.
    """
    console.configure(verbose=verbose, as_json=as_json)
    from music3_cli.checkpoint.compare import compare_tensors
    from music3_cli.checkpoint.convert import convert as run_convert
    from music3_cli.checkpoint.convert import plan_conversion
    from music3_cli.checkpoint.inventory import open_checkpoint
    from music3_cli.checkpoint.locate import find_checkpoint
    from music3_cli.cli.work import peak_memory_bytes, show_work, size_text
    from music3_cli.events import ConvertFinished

    other = find_checkpoint(check) if check is not None else None
    template = find_checkpoint(configs) if configs is not None else None
    target = Path(dest).expanduser()
    job = plan_conversion(Path(native).expanduser(), target, template)
    view: dict[str, Any] = {"as_json": as_json, "quiet": quiet, "no_progress": no_progress}
    if not quiet and not as_json:
        console.talk(f"{native}: native packaging; {size_text(job.total_bytes)} of weights will be written to {dest}")
    show_work(run_convert(job), **view)
    made = open_checkpoint(target)
    comparison = show_work(compare_tensors(made, other), **view) if other is not None else None
    peak = peak_memory_bytes()
    if as_json:
        tensors = sum(len(files.tensors) for files in made.components.values())
        result = _comparison_as_json(comparison, check) if comparison else None
        console.record(ConvertFinished(str(target), tensors, made.weight_bytes, peak, result).to_json())
    else:
        if comparison is not None:
            _show_comparison(comparison, str(check))
        if not quiet:
            console.talk(f"converted and verified; peak memory {size_text(peak)}")
        console.data(str(target))
    raise typer.Exit(0 if comparison is None or comparison.is_equal else 5)


def _show_comparison(comparison: Comparison, other: str) -> None:
    total = comparison.equal + len(comparison.different) + len(comparison.missing)
    for title, lines in (
        ("different", [f"{name}: {how}" for name, how in comparison.different.items()]),
        ("missing", list(comparison.missing)),
        ("extra", list(comparison.extra)),
    ):
        for line in lines[:_SHOWN]:
            console.data(f"{title}: {line}")
        if len(lines) > _SHOWN:
            console.data(f"{title}: and {len(lines) - _SHOWN} more")
    console.data(
        f"against {other}: {comparison.equal} of {total} tensors equal, {len(comparison.different)} different, "
        f"{len(comparison.missing)} missing, {len(comparison.extra)} extra"
    )


def _comparison_as_json(comparison: Comparison, other: str | None) -> dict[str, object]:
    return {
        "other": other,
        "equal": comparison.equal,
        "different": dict(comparison.different),
        "missing": list(comparison.missing),
        "extra": list(comparison.extra),
    }
