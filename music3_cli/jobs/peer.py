"""diffusers, the model's reference implementation, on the same checkpoint and device: what `music3 bench` sets beside
our own figures. Nothing needs it, and nothing but this module knows it; where it is not installed there is no peer.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from typing import Any, TypeVar

import torch

from music3_cli.acoustic.flow import GUIDANCE
from music3_cli.acoustic.windows import WINDOW_FRAMES
from music3_cli.checkpoint.inventory import Checkpoint
from music3_cli.checkpoint.memory import ACOUSTIC, TALKER
from music3_cli.devices import arithmetic
from music3_cli.errors import UsageError
from music3_cli.placement import GIB, host_memory
from music3_cli.song.limits import FRAME_RATE
from music3_cli.song.prompt import AUDIO_CFG, SPECIAL_TOKENS
from music3_cli.stages.weights import give_back
from music3_cli.timing import seconds_of, wait

T = TypeVar("T")

PROMPT_TOKENS = 400
WARM_UP_FRAMES, FRAMES = 10, 100

COUNTERPARTS = {"fp32": "fp32", "tf32": "tf32", "fp16": "bf16"}
"""What stands beside a policy of ours: its half precision is bf16."""


@dataclass(frozen=True)
class PeerTalker:
    """One song.

    Attributes:
        context: the position of the last frame.
    """

    dtype: str
    frames: int
    context: int
    frame_ms: float


@dataclass(frozen=True)
class PeerWindow:
    """A window of 200 frames.

    Attributes:
        precision: `fp32`, `tf32` or `bf16`.
        step_ms: a step, which is two forwards.
        vocoder_ms: of the whole window.
    """

    precision: str
    steps: int
    step_ms: float
    window_s: float
    vocoder_ms: float


@dataclass(frozen=True)
class PeerSongs:
    """Songs one after the other, extrapolated from a frame, a window and its sound."""

    seconds: float
    talker: PeerTalker
    window: PeerWindow


def find_peer(checkpoint: Checkpoint, device: torch.device, wanted: bool | None) -> Peer | None:
    """The peer; None where it is not installed or not wanted.

    Args:
        wanted: None for where it is installed.

    Raises:
        UsageError: wanted, and not installed.
    """
    if wanted is False:
        return None
    try:
        return Peer(checkpoint, device)
    except (ImportError, RuntimeError) as error:  # the latter for a part that cannot be imported
        if wanted:
            raise UsageError(
                f"--peer: diffusers with this model cannot be imported ({str(error).splitlines()[0]})",
                hint="pip install 'diffusers>=0.40' 'transformers>=5.0' accelerate",
            ) from None
        return None


class Peer:
    """diffusers as it is installed. What goes wrong in it leaves its figures out: ours stand without them.

    Attributes:
        name: with its version.
        failed: why the last measurement has no figures.
    """

    def __init__(self, checkpoint: Checkpoint, device: torch.device) -> None:
        import diffusers
        import transformers

        import_module("diffusers.modular_pipelines.minimax_music3")  # older ones have none
        self.name, self.failed = f"diffusers {diffusers.__version__}", ""
        self._checkpoint, self._root, self._device = checkpoint, checkpoint.root, device
        for each in (diffusers.utils.logging, transformers.utils.logging):
            each.set_verbosity_error()
            each.disable_progress_bar()

    def talker(self, dtype: torch.dtype) -> PeerTalker | None:
        """Frames of one song behind a prompt of random tokens."""
        return self._measured(TALKER, partial(self._talker, dtype))

    def windows(self, policies: Sequence[str], steps: int) -> list[PeerWindow]:
        """A window in the counterpart of each of our policies; on a CPU only in float32."""
        on_gpu = self._device.type == "cuda"
        wanted = dict.fromkeys(COUNTERPARTS[policy] if on_gpu else "fp32" for policy in policies)
        measured = [self._measured(ACOUSTIC, partial(self._window, each, steps)) for each in wanted]
        return [window for window in measured if window is not None]

    def songs(self, dtype: torch.dtype, policy: str, steps: int, frames: int, windows: int) -> PeerSongs | None:
        """As many frames and windows, one after the other, as its users have them."""
        talker = self.talker(dtype)
        measured = self.windows([policy], steps) if talker else []
        if talker is None or not measured:
            return None
        (window,) = measured
        seconds = (frames * talker.frame_ms + windows * window.vocoder_ms) / 1000 + windows * window.window_s
        return PeerSongs(seconds, talker, window)

    def to_json(self, **figures: Any) -> dict[str, object]:
        """Its name, what was measured (dataclasses, or lists of them), and what went wrong."""

        def plain(value: Any) -> object:
            return [asdict(each) for each in value] if isinstance(value, list) else value and asdict(value)

        return {"name": self.name, "failed": self.failed, **{name: plain(value) for name, value in figures.items()}}

    def _measured(self, parts: Sequence[str], measure: Callable[[], T]) -> T | None:
        give_back(self._device)  # our own networks are gone by now
        # Its networks are read into host memory first; a system that runs out ends the program, figures and all.
        needed, free = sum(self._checkpoint.components[part].file_bytes for part in parts), host_memory()[0]
        if free and needed > free:
            self.failed = f"it needs {needed / GIB:.1f} GiB of host memory, {free / GIB:.1f} GiB are free"
            return None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return measure()
        except torch.OutOfMemoryError:
            self.failed = f"out of memory on {self._device}"
        except Exception as error:  # whatever another library raises
            self.failed = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        finally:
            give_back(self._device)
        return None

    def _talker(self, dtype: torch.dtype) -> PeerTalker:
        from diffusers import MiniMaxMusic3RVQDepthDecoder
        from diffusers.modular_pipelines.minimax_music3.encoders import MiniMaxMusic3AutoregressiveStep
        from transformers import Qwen3ForCausalLM

        device = self._device
        model = Qwen3ForCausalLM.from_pretrained(self._root / "language_model", dtype=dtype).to(device).eval()
        depth = MiniMaxMusic3RVQDepthDecoder.from_pretrained(self._root / "rvq_depth_decoder", torch_dtype=dtype)
        step = MiniMaxMusic3AutoregressiveStep().init_pipeline()
        step.update_components(language_model=model, rvq_depth_decoder=depth.to(device).eval())
        generator = torch.Generator(device).manual_seed(1)
        ids = torch.randint(0, min(SPECIAL_TOKENS.values()), (2, PROMPT_TOKENS), device=device, generator=generator)
        ids[1, 1:-2] = AUDIO_CFG

        def run(frames: int) -> int:
            duration = (frames + 0.5) / FRAME_RATE
            hiddens = step(text_ids=ids, audio_duration=duration, generator=generator, output="frame_hiddens")
            return int(hiddens.shape[1])

        with torch.no_grad():
            run(WARM_UP_FRAMES)
            wait(device)
            started = time.perf_counter()
            frames = run(FRAMES)
            wait(device)
            seconds = time.perf_counter() - started
        return PeerTalker(str(dtype).removeprefix("torch."), frames, PROMPT_TOKENS + frames, seconds / frames * 1000)

    def _window(self, precision: str, steps: int) -> PeerWindow:
        from diffusers import (
            ClassifierFreeGuidance,
            FlowMatchEulerDiscreteScheduler,
            MiniMaxMusic3ConditionEncoder,
            MiniMaxMusic3Transformer1DModel,
            MiniMaxMusic3Vocoder,
        )
        from diffusers.modular_pipelines.minimax_music3.modular_blocks_minimax_music3 import (
            MiniMaxMusic3CoreDenoiseStep,
        )

        device, dtype = self._device, torch.bfloat16 if precision == "bf16" else torch.float32

        def load(kind: Any, folder: str) -> Any:
            return kind.from_pretrained(self._root / folder, torch_dtype=dtype).to(device).eval()

        encoder = load(MiniMaxMusic3ConditionEncoder, "condition_encoder")
        vocoder = load(MiniMaxMusic3Vocoder, "vocoder")
        denoise = MiniMaxMusic3CoreDenoiseStep().init_pipeline()
        denoise.update_components(
            condition_encoder=encoder,
            transformer=load(MiniMaxMusic3Transformer1DModel, "transformer"),
            scheduler=FlowMatchEulerDiscreteScheduler(num_train_timesteps=1, shift=1.0, invert_sigmas=True),
            guider=ClassifierFreeGuidance(guidance_scale=GUIDANCE),
        )
        denoise.set_progress_bar_config(disable=True)
        width = encoder.config.num_condition_layers * encoder.config.condition_hidden_dim
        generator = torch.Generator(device).manual_seed(1)
        hiddens = torch.randn(1, WINDOW_FRAMES, width, device=device, generator=generator).to(dtype)

        def solve(steps: int) -> Any:
            return denoise(
                frame_hiddens=hiddens, num_inference_steps=steps, generator=generator, output="latent_chunks"
            )[0]

        with torch.no_grad(), arithmetic(precision == "tf32"):
            torch.backends.cudnn.deterministic = False  # as its users have it; `arithmetic` gives back what was
            solve(2)
            wait(device)
            started = time.perf_counter()
            latents = solve(steps)
            wait(device)
            seconds = time.perf_counter() - started
            sound = seconds_of(lambda: vocoder(latents), device, 5 if device.type == "cuda" else 1)
        return PeerWindow(precision, steps, seconds / steps * 1000, seconds, sound * 1000)
