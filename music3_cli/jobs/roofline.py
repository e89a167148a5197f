"""What a device could do at best with the songs at hand: the talker is reading, the acoustic stage is arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from music3_cli.acoustic.bench import measure_products, step_flops
from music3_cli.acoustic.windows import WINDOW_FRAMES, plan_windows
from music3_cli.checkpoint.inventory import Checkpoint
from music3_cli.checkpoint.memory import cache_bytes, frame_bytes
from music3_cli.devices import DTYPES
from music3_cli.song.request import SongRequest
from music3_cli.stages.weights import give_back
from music3_cli.talker.bench import read_bandwidth


class Roofline:
    """The devices' rates, measured before the weights come.

    Args:
        request: one of the songs; all have its prompt and its settings.
        talker, acoustic: the stages' devices.
    """

    def __init__(
        self, checkpoint: Checkpoint, request: SongRequest, talker: torch.device, acoustic: Sequence[torch.device]
    ) -> None:
        self._architecture, self._request, self._acoustic_devices = checkpoint.architecture, request, len(acoustic)
        latents = self._architecture.condition.latents(WINDOW_FRAMES)
        with torch.inference_mode():
            self._bandwidth = read_bandwidth(talker) if talker.type == "cuda" else 0.0
            products = measure_products(self._architecture.transformer, latents, [request.precision], acoustic[0])
            self._rate = next(product.tflops for product in products if product.name == "ff_in") * 1e12
        for device in (talker, acoustic[0]):
            give_back(device)

    def talker(self, songs: Sequence[int], at_once: int) -> float:
        """Seconds for songs of so many frames, every step shared by `at_once` of them: weights, keys and values are
        read once at the device's bandwidth. 0 on a CPU.
        """
        if not self._bandwidth:
            return 0.0
        backbone, depth, request = self._architecture.backbone, self._architecture.depth, self._request
        itemsize = DTYPES[request.talker_dtype].itemsize
        weights = frame_bytes(backbone, depth, itemsize, request.talker_weights == "int8")
        positions = sum(frames * (len(request.prompt.ids) + frames / 2) for frames in songs)
        read = sum(songs) / at_once * weights + positions * cache_bytes(backbone, 1, itemsize)
        return read / self._bandwidth

    def acoustic(self, songs: Sequence[int]) -> float:
        """Seconds for songs of so many frames, each on one of the acoustic devices: the arithmetic of all steps at the
        rate of the transformer's largest product.
        """
        windows = [window for frames in songs for window in plan_windows(frames, self._architecture.condition)]
        flops = sum(step_flops(self._architecture.transformer, window.latents) for window in windows)
        return self._request.steps * flops / self._rate / min(len(songs), self._acoustic_devices)
