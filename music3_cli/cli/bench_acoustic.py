"""`music3 bench acoustic`: the acoustic stage's time, its share of the machine's own rate, its policies' errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from music3_cli.cli import console, options

if TYPE_CHECKING:
    from music3_cli.acoustic.bench import PolicyError, ProductTiming, StepTiming, VocoderTiming
    from music3_cli.jobs.peer import PeerWindow


def acoustic(
    checkpoint: options.Checkpoint = None,
    precision: Annotated[str, typer.Option(help="Policies, separated by commas.")] = "fp32,tf32,fp16",
    steps: Annotated[int, typer.Option(min=1, max=1000, help="Euler steps a window.")] = 30,
    seeds: Annotated[int, typer.Option(min=0, max=100, help="Windows that every policy's error is measured on.")] = 3,
    variants: Annotated[
        bool, typer.Option("--variants", help="Also without the CUDA graph, without kernels, and compiled by torch.")
    ] = False,
    device: options.Device = "auto",
    peer: options.Peer = None,
    as_json: options.JsonDocument = False,
) -> None:
    """Time the acoustic stage: the transformer's step and a window of 200 frames, and the vocoder.

    The share is of the rate of the block's largest matrix product, measured in the same run with the same precision.
    Errors are against fp32, on windows of random frames. diffusers has bf16 where fp16 is asked for.
    """
    console.configure(as_json=as_json)
    names = _policies(precision)
    from music3_cli.checkpoint.locate import find_checkpoint

    found = find_checkpoint(checkpoint)
    import torch

    from music3_cli.acoustic.bench import (
        VARIANTS,
        measure_errors,
        measure_products,
        measure_steps,
        measure_vocoder,
        step_flops,
    )
    from music3_cli.acoustic.engine import AcousticEngine
    from music3_cli.checkpoint import load
    from music3_cli.devices import device_name, resolve_device
    from music3_cli.jobs.peer import find_peer

    where = resolve_device(device)
    beside = find_peer(found, where, peer)
    count = 1 if not variants else 4 if where.type == "cuda" else 2
    with torch.inference_mode():
        console.talk(f"loading the acoustic stage of {found.name}")
        encoder = load.load_condition_encoder(found, where, torch.float32)
        engine = AcousticEngine(encoder, load.load_transformer(found, where), load.load_vocoder(found, where))
        latents = engine.windows(200)[0].latents
        console.talk("timing its matrix products and the vocoder")
        products = list(measure_products(engine.transformer.config, latents, names, where))
        rates = {timing.precision: timing.tflops for timing in products if timing.name == "ff_in"}
        sounds = list(measure_vocoder(engine, names, VARIANTS[: min(count, 2)]))
        console.talk(f"comparing {', '.join(names)} in {seeds} window{'s' * (seeds != 1)} each")
        errors = list(measure_errors(engine, names, range(seeds), steps))
        console.talk("timing the transformer's step")
        steps_timed = measure_steps(engine, names, VARIANTS[:count], steps, rates)
        timings = sorted(steps_timed, key=lambda timing: names.index(timing.precision))
        flops = step_flops(engine.transformer.config, latents)
        memory = torch.cuda.max_memory_allocated(where) if where.type == "cuda" else 0
    del engine, encoder, steps_timed
    theirs = []
    if beside:
        console.talk(f"timing {beside.name}")
        theirs = beside.windows(names, steps)
    if as_json:
        console.document(
            {
                "device": device_name(where),
                "torch": torch.__version__,
                "checkpoint": found.name,
                "steps": steps,
                "memory_bytes": memory,
                "products": [asdict(timing) for timing in products],
                "transformer": [asdict(timing) for timing in timings],
                "vocoder": [asdict(timing) for timing in sounds],
                "errors": [asdict(error) for error in errors],
                "peer": beside.to_json(windows=theirs) if beside else None,
            }
        )
        return
    console.data(f"{device_name(where)}, torch {torch.__version__}, checkpoint {found.name}, {steps} steps a window")
    rows = [(beside.name, window, flops / window.step_ms / 1e9) for window in theirs] if beside else []
    _show(products, timings, sounds, errors, rows)
    if beside and beside.failed:
        console.data(f"{beside.name}: not all was measured ({beside.failed})")


def _show(
    products: Sequence[ProductTiming],
    timings: Sequence[StepTiming],
    sounds: Sequence[VocoderTiming],
    errors: Sequence[PolicyError],
    peer: Sequence[tuple[str, PeerWindow, float]],
) -> None:
    from rich import box
    from rich.table import Table

    table = Table("precision", "product", "rows x outputs x inner", "ms", "TFLOP/s", box=box.SIMPLE)
    for p in products:
        table.add_row(p.precision, p.name, f"{p.rows} x {p.outputs} x {p.inner}", f"{p.ms:.3f}", f"{p.tflops:.4g}")
    console.show(table)
    table = Table(
        "precision",
        "variant",
        "ms a step",
        "s a window",
        "TFLOP/s",
        "share",
        "start",
        "error of a step",
        box=box.SIMPLE,
    )
    for t in timings:
        name = t.precision if t.arithmetic == t.precision else f"{t.precision} (is {t.arithmetic} here)"
        row = [name, t.variant, f"{t.step_ms:.2f}", f"{t.window_s:.3f}", f"{t.tflops:.4g}"]
        table.add_row(*row, f"{t.share:.0%}", f"{t.start_s:.1f} s", f"{t.velocity_error:.1e}")
    for name, w, tflops in peer:
        row = [w.precision, name, f"{w.step_ms:.2f}", f"{w.window_s:.3f}", f"{tflops:.4g}"]
        table.add_row(*row, "-", "-", "-")
    console.show(table)
    table = Table("precision", "variant", "vocoder: kept span", "whole window", box=box.SIMPLE)
    for s in sounds:
        table.add_row(s.precision, s.variant, f"{s.kept_ms:.1f} ms", f"{s.whole_ms:.1f} ms")
    for name, w, _ in peer:
        table.add_row(w.precision, name, "-", f"{w.vocoder_ms:.1f} ms")
    console.show(table)
    if errors:
        table = Table("precision", "seed", "latents: relative", "greatest", "samples: relative", "greatest")
        table.box = box.SIMPLE
        for e in errors:
            numbers = (e.latents_relative, e.latents_greatest, e.samples_relative, e.samples_greatest)
            table.add_row(e.precision, str(e.seed), *(f"{number:.1e}" for number in numbers))
        console.show(table)


def _policies(text: str) -> list[str]:
    from music3_cli.errors import UsageError
    from music3_cli.song.settings import PRECISIONS

    names = [name.strip() for name in text.split(",")]
    if unknown := [name for name in names if name not in PRECISIONS]:
        raise UsageError(f"--precision {unknown[0]}: {', '.join(PRECISIONS)} were expected, separated by commas")
    return list(dict.fromkeys(names))
