"""How fast the acoustic stage is against the machine's own matrix products, and how far its policies are from float32.

Measures on the device; prints nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial

import torch
import torch.nn.functional as F

from music3_cli.acoustic.engine import AcousticEngine, Problem
from music3_cli.acoustic.flow import GUIDANCE, schedule
from music3_cli.acoustic.graphs import VelocityGraph
from music3_cli.acoustic.precision import precision_on
from music3_cli.acoustic.windows import HOP_FRAMES, WINDOW_FRAMES
from music3_cli.checkpoint.layout import TransformerConfig
from music3_cli.kernels.triton_support import twins_only
from music3_cli.randomness import ServerRandomness
from music3_cli.timing import seconds_of, wait

VARIANTS = ("product", "plain", "eager", "compiled")
"""As the product runs, on a GPU in a CUDA graph; without graph and kernels; without the graph alone; without both and
each block compiled by torch.
"""


@dataclass(frozen=True)
class ProductTiming:
    """One matrix product of a block, by cuBLAS: [rows, inner] x [inner, outputs]."""

    precision: str
    name: str
    rows: int
    outputs: int
    inner: int
    ms: float
    tflops: float


@dataclass(frozen=True)
class StepTiming:
    """The transformer's step of both guidance rows on a full window.

    Attributes:
        step_ms, window_s: one step, and all steps of a window.
        tflops: arithmetic a second.
        share: of the rate of the block's largest product with this precision.
        start_s: the first step's time beyond a later one's: building kernels, compiling.
        velocity_error: of one step's velocity against plain float32, relative norm.
    """

    precision: str
    arithmetic: str
    variant: str
    step_ms: float
    window_s: float
    tflops: float
    share: float
    start_s: float
    velocity_error: float


@dataclass(frozen=True)
class VocoderTiming:
    """A middle window's sound: its kept span, and all of it."""

    precision: str
    variant: str
    kept_ms: float
    whole_ms: float


@dataclass(frozen=True)
class PolicyError:
    """A policy's window against the same in float32, of one seed: relative norms and greatest absolute differences of
    latents and samples. The samples are each policy's own latents by its own vocoder.
    """

    precision: str
    seed: int
    latents_relative: float
    latents_greatest: float
    samples_relative: float
    samples_greatest: float


def products(config: TransformerConfig, rows: int) -> dict[str, tuple[int, int]]:
    """The matrix products of a block by name: outputs, inner size."""
    inner, wide = config.inner_dim, config.ff_inner_dim
    return {"qkv": (3 * inner, inner), "out": (inner, inner), "ff_in": (2 * wide, inner), "ff_out": (inner, wide)}


def step_flops(config: TransformerConfig, latents: int) -> float:
    """Arithmetic of one step, both guidance rows."""
    rows, inner = latents + 1, config.inner_dim
    block = sum(outputs * columns for outputs, columns in products(config, rows).values()) + 2 * rows * inner
    # The latents' way in is both rows' alike.
    edges = 3 * latents * config.in_channels * inner
    return 2 * (2 * rows * config.num_layers * block + edges)


def measure_products(
    config: TransformerConfig, latents: int, names: Sequence[str], device: torch.device
) -> Iterator[ProductTiming]:
    """Every product of a block with the rows that a window gives it."""
    rows = 2 * (latents + 1)
    for name in names:
        precision = precision_on(name, device)
        for product, (outputs, inner) in products(config, rows).items():
            x_RK = torch.randn(rows, inner, device=device).to(precision.dtypes.product)
            # Several weights, so that none is still in a cache.
            weights = [(0.02 * torch.randn(outputs, inner, device=device)).to(x_RK.dtype) for _ in range(4)]
            with precision.policy():
                seconds = seconds_of(lambda: [F.linear(x_RK, w) for w in weights], device, _repeats(device)) / 4  # noqa: B023
            flops = 2 * rows * outputs * inner
            yield ProductTiming(name, product, rows, outputs, inner, seconds * 1000, flops / seconds / 1e12)


@contextmanager
def as_variant(engine: AcousticEngine, variant: str) -> Iterator[None]:
    """Inside, the transformer's blocks run as the variant says."""
    blocks = engine.transformer.blocks
    with twins_only() if variant in ("plain", "compiled") else nullcontext():
        if variant == "compiled":
            for block in blocks:
                block.compile(dynamic=False)
        try:
            yield
        finally:
            for block in blocks:
                block._compiled_call_impl = None


def measure_steps(
    engine: AcousticEngine, names: Sequence[str], variants: Sequence[str], steps: int, rates: dict[str, float]
) -> Iterator[StepTiming]:
    """A step of every policy and variant. TF32 comes last: the matrices are rounded for it, as for songs that are all
    TF32, and stay so.

    Args:
        rates: TFLOP/s of the largest product by precision.
    """
    device, problem = engine.device, _problem(engine, 0)
    flops = step_flops(engine.transformer.config, problem.window.latents)
    inputs = problem.noise_LC, engine.tokens(schedule(2))[1], problem.bases_2LC
    with twins_only():
        exact = engine.velocity(precision_on("fp32", device), GUIDANCE)(*inputs)
    for name in sorted(names, key=lambda name: name == "tf32"):
        asked = precision_on(name, device)
        if asked.dtypes.tf32_matrices:
            engine.transformer.round_matrices()
        for variant in variants:
            precision = asked
            if variant in ("plain", "compiled"):  # which leave rounding to the products
                precision = replace(asked, dtypes=replace(asked.dtypes, tf32_inputs=False))
            velocity = engine.velocity(precision, GUIDANCE)
            with as_variant(engine, variant):
                started = time.perf_counter()
                error = _relative(velocity(*inputs), exact)
                wait(device)
                first = time.perf_counter() - started
                for _ in range(2):
                    velocity(*inputs)
                captured = variant == "product" and device.type == "cuda"
                run = VelocityGraph(velocity, *inputs) if captured else velocity
                seconds = seconds_of(partial(run, *inputs), device, _repeats(device))
            tflops = flops / seconds / 1e12
            share = tflops / rates[name] if name in rates else 0.0
            start = max(0.0, first - seconds)
            yield StepTiming(
                name, precision.arithmetic, variant, seconds * 1000, seconds * steps, tflops, share, start, error
            )


def measure_vocoder(engine: AcousticEngine, names: Sequence[str], variants: Sequence[str]) -> Iterator[VocoderTiming]:
    """A middle window's sound, of random latents."""
    device = engine.device
    window = engine.windows(WINDOW_FRAMES + 2 * HOP_FRAMES)[1]
    channels = engine.transformer.config.in_channels
    latents = torch.randn(window.latents, channels, device=device).T
    for name in names:
        precision = precision_on(name, device)
        for variant in variants:
            with twins_only() if variant not in ("product", "eager") else nullcontext(), precision.policy():
                kept = seconds_of(
                    lambda: engine.vocoder.decode(latents, window.keep_start, window.keep_stop),
                    device,
                    _repeats(device),
                )
                whole = seconds_of(lambda: engine.vocoder(latents), device, _repeats(device))
            yield VocoderTiming(name, variant, kept * 1000, whole * 1000)


def measure_errors(
    engine: AcousticEngine, names: Sequence[str], seeds: Sequence[int], steps: int
) -> Iterator[PolicyError]:
    """Every policy but fp32 against fp32."""
    others = [name for name in names if name != "fp32"]
    for seed in seeds if others else ():
        exact, exact_sound = _window(engine, seed, steps, "fp32")
        for name in others:
            latents, sound = _window(engine, seed, steps, name)
            yield PolicyError(
                name,
                seed,
                _relative(latents, exact),
                (latents - exact).abs().max().item(),
                _relative(sound, exact_sound),
                (sound - exact_sound).abs().max().item(),
            )


def _window(engine: AcousticEngine, seed: int, steps: int, name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """A window's latents and samples."""
    problem, times, precision = _problem(engine, seed), schedule(steps), precision_on(name, engine.device)
    solving = engine.solve(problem, times, engine.tokens(times), GUIDANCE, precision)
    while True:
        try:
            next(solving)
        except StopIteration as end:
            return end.value, engine.decode(end.value, problem.window, precision)


def _problem(engine: AcousticEngine, seed: int) -> Problem:
    """A full window of random frames."""
    encoder = engine.condition
    generator = torch.Generator(engine.device).manual_seed(seed)
    width = encoder.config.condition_hidden_dim * encoder.config.num_condition_layers
    hiddens = torch.randn(WINDOW_FRAMES, width, device=engine.device, generator=generator)
    return engine.problem(engine.windows(WINDOW_FRAMES)[0], hiddens, ServerRandomness(seed), None)


def _relative(ours: torch.Tensor, exact: torch.Tensor) -> float:
    return float(((ours.double() - exact.double()).norm() / exact.double().norm()).item())


def _repeats(device: torch.device) -> int:
    return 10 if device.type == "cuda" else 1
