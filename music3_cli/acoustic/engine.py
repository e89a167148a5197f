"""Runs a song's windows through condition encoder, flow solver and vocoder, and joins what comes out."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch

from music3_cli.acoustic.flow import (
    GUIDANCE,
    Carry,
    end_on_carry,
    guidance_bases,
    guided_velocity,
    hold_overlap,
    next_carry,
    schedule,
    take_over_condition,
)
from music3_cli.acoustic.graphs import Velocity, VelocityGraphs
from music3_cli.acoustic.precision import Precision, precision_on, wider
from music3_cli.acoustic.windows import WINDOW_FRAMES, Window, plan_windows
from music3_cli.devices import to_host, true_fp32
from music3_cli.kernels.triton_support import use_kernel
from music3_cli.models.condition import ConditionEncoder
from music3_cli.models.transformer import FlowTransformer
from music3_cli.models.vocoder import Vocoder
from music3_cli.randomness import SongRandomness


@dataclass(frozen=True)
class Solved:
    """`steps` Euler steps of a window are done, or given to a GPU, which may be up to a window behind."""

    window: Window
    steps: int


@dataclass(frozen=True)
class Launched:
    """All steps of a window are on their way. The device is busy with them: until it is done the host has time."""

    window: Window


@dataclass(frozen=True)
class Redone:
    """A window had values that are no numbers; it begins again, on the same noise, with the policy `precision`."""

    window: Window
    precision: str


@dataclass(frozen=True)
class Sound:
    """A window's kept span, on its way to the host; concatenated, the spans are the song.

    Attributes:
        ready: behind the copy, where the device is still at it.
    """

    window: Window
    samples_CS: torch.Tensor
    ready: torch.cuda.Event | None = None

    def wait(self) -> torch.Tensor:
        """[2, samples] float32 in [-1, 1] on the host, once they are there."""
        if self.ready is not None:
            self.ready.synchronize()
        return self.samples_CS


Part = Solved | Launched | Redone | Sound


@dataclass(frozen=True)
class Problem:
    """What a window's solver starts from: noise and condition, [L, channels] each, what the condition brings into every
    step (`guidance_bases`), and its predecessor's carry.
    """

    window: Window
    noise_LC: torch.Tensor
    condition_LC: torch.Tensor
    bases_2LC: torch.Tensor
    carry: Carry | None


class AcousticEngine:
    """The three acoustic networks on one device. Songs of different policies can follow each other.

    The transformer's matrices are in memory as they were loaded. The first song that wants float16 products of float32
    matrices makes copies, which stay (half as much again); a transformer loaded with float16 matrices needs none, and
    widens one block at a time where a window is solved again. On Hopper TF32 songs have copies, too, as large as the
    originals; with `only_tf32` these are rounded instead.

    Args:
        only_tf32: no song of another precision will come.
    """

    def __init__(
        self,
        condition: ConditionEncoder,
        transformer: FlowTransformer,
        vocoder: Vocoder,
        cuda_graph: bool = True,
        only_tf32: bool = False,
    ) -> None:
        self.condition, self.transformer, self.vocoder = condition, transformer, vocoder
        self.device = transformer.latents_in.device
        if only_tf32 and precision_on("tf32", self.device).dtypes.tf32_matrices:
            transformer.round_matrices()
            torch.cuda.synchronize(self.device)  # whoever solves windows may have a stream of its own
        self.graphs = VelocityGraphs(cuda_graph and self.device.type == "cuda")

    @property
    def _full_window(self) -> int:
        """Latents of a window of full length."""
        return self.condition.config.latents(WINDOW_FRAMES)

    def windows(self, frames: int) -> list[Window]:
        return plan_windows(frames, self.condition.config)

    def arithmetic(self, precision: str) -> str:
        """What a policy is on this device."""
        return precision_on(precision, self.device).arithmetic

    @torch.inference_mode()
    def run(
        self,
        hiddens_FD: torch.Tensor,
        randomness: SongRandomness,
        steps: int,
        guidance: float = GUIDANCE,
        precision: str = "fp32",
        shift: float = 1.0,
    ) -> Iterator[Part]:
        """A song's sound from all its frame hiddens [F, 8 x H], in window order; see `run_windows`."""
        pieces = ((window, hiddens_FD[window.start : window.stop]) for window in self.windows(len(hiddens_FD)))
        yield from self.run_windows(pieces, randomness, steps, guidance, precision, shift)

    @torch.inference_mode()
    def run_windows(
        self,
        pieces: Iterable[tuple[Window, torch.Tensor]],
        randomness: SongRandomness,
        steps: int,
        guidance: float = GUIDANCE,
        precision: str = "fp32",
        shift: float = 1.0,
    ) -> Generator[Part]:
        """A song's sound from its windows in order, each with its frames' hiddens [frames, 8 x H] on any device. The
        next window is asked for when the one before is solved; its sound may still be on the way.

        Args:
            precision: `fp32`, `tf32` or `fp16`, see `acoustic/precision.py`.
            shift: of the schedule.
        """
        asked, times, carry = precision_on(precision, self.device), schedule(steps, shift), None
        tokens = self.tokens(times)
        for window, hiddens_FD in pieces:
            problem = self.problem(window, hiddens_FD, randomness, carry)
            policy: Precision | None = asked
            while policy:
                latents_LC = yield from self.solve(problem, times, tokens, guidance, policy)
                finite = latents_LC.isfinite().all()
                yield Launched(window)
                policy = wider(policy, self.device)
                if bool(finite) or policy is None:  # here the host waits for the device
                    break
                yield Redone(window, policy.name)
            carry = next_carry(latents_LC, problem.condition_LC)
            yield Sound(window, *to_host(self.decode(latents_LC, window, asked)))

    def tokens(self, times: Sequence[float]) -> list[torch.Tensor]:
        """The token of each time but the last, each computed alone: it does not depend on the other times."""
        with true_fp32():
            return [self.transformer.time_token(time) for time in times[:-1]]

    def problem(
        self, window: Window, hiddens_FD: torch.Tensor, randomness: SongRandomness, carry: Carry | None
    ) -> Problem:
        """A window with its frames' hiddens [frames, 8 x H], and with the noise of its place in the song."""
        frames_FD = hiddens_FD.to(self.device, self.condition.proj_weight.dtype)
        carry = carry.fit(window.latents) if carry else None
        with true_fp32():
            condition_LC = take_over_condition(self.condition(frames_FD).float(), carry)
            bases_2LC = guidance_bases(self.transformer, condition_LC)
        shape = (1, self.transformer.config.in_channels, window.latents)
        noise_LC = randomness.noise(window.index, shape, self.device)[0].T.contiguous()
        return Problem(window, noise_LC, condition_LC, bases_2LC, carry)

    def solve(
        self,
        problem: Problem,
        times: Sequence[float],
        tokens: Sequence[torch.Tensor],
        guidance: float,
        precision: Precision,
    ) -> Generator[Solved, None, torch.Tensor]:
        """A window's latents, [L, C].

        Args:
            times, tokens: a schedule, and the token of each time but the last.
        """
        x_LC, carry = problem.noise_LC, problem.carry
        velocity = self.velocity(precision, guidance)
        if len(x_LC) == self._full_window:  # of other lengths a song has one at most
            velocity = self.graphs.of(
                (precision, guidance, use_kernel(x_LC)), velocity, x_LC, tokens[0], problem.bases_2LC
            )
        for step, token_C in enumerate(tokens):
            time, following = times[step], times[step + 1]
            if carry:
                x_LC = hold_overlap(x_LC, problem.noise_LC, carry, time)
            x_LC = x_LC + (following - time) * velocity(x_LC, token_C, problem.bases_2LC)
            yield Solved(problem.window, step + 1)
        return end_on_carry(x_LC, carry) if carry else x_LC

    def velocity(self, precision: Precision, guidance: float) -> Velocity:
        """What a step computes."""

        def compute(x_LC: torch.Tensor, token_C: torch.Tensor, bases_2LC: torch.Tensor) -> torch.Tensor:
            with precision.policy():
                return guided_velocity(self.transformer, x_LC, token_C, bases_2LC, guidance, precision.dtypes)

        return compute

    def decode(self, latents_LC: torch.Tensor, window: Window, precision: Precision) -> torch.Tensor:
        """The kept span of a window's latents, [2, samples] float32 in [-1, 1]."""
        with precision.policy():
            return self.vocoder.decode(latents_LC.T, window.keep_start, window.keep_stop).clamp(-1, 1)
