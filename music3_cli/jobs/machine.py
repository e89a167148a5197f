"""What a run computes on, as the flags say it; no torch until it is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from music3_cli.checkpoint.inventory import Checkpoint
from music3_cli.errors import UsageError
from music3_cli.placement import GIB, KINDS, Placement, RunLimits, default_weights
from music3_cli.song.request import SongRequest

if TYPE_CHECKING:
    import torch

    from music3_cli.pipeline import Pipeline


def limits_of(requests: Sequence[SongRequest]) -> RunLimits:
    """What these songs need at most; at least one."""
    lengths = ((len(request.prompt.ids), request.max_frames) for request in requests)
    return RunLimits.of(lengths, (request.precision for request in requests))


@dataclass(frozen=True)
class RunsOn:
    """Devices and how they are used; none of it changes a song, but that `auto` choices look at the device.

    Attributes:
        device: the talker's, as `--device` takes it.
        acoustic_device: the acoustic stage's, as `--acoustic-device` takes it.
        placement: `auto`, `resident` or `swap`.
        memory_limit: GiB of each device; None for all.
        cuda_graph: whether the talker's step may be captured.

    Raises:
        UsageError: a value that its flag does not take.
    """

    device: str = "auto"
    acoustic_device: str = "same"
    placement: str = "auto"
    memory_limit: float | None = None
    cuda_graph: bool = True

    def __post_init__(self) -> None:
        if self.placement not in KINDS:
            raise UsageError(f"--placement {self.placement}: one of {', '.join(KINDS)} was expected")
        if self.memory_limit is not None and not self.memory_limit > 0:
            raise UsageError(f"--memory-limit {self.memory_limit:g}: GiB above 0 were expected")

    @property
    def limit_bytes(self) -> int | None:
        return None if self.memory_limit is None else int(self.memory_limit * GIB)

    def devices(self) -> tuple[torch.device, list[torch.device]]:
        """The talker's and the acoustic stage's.

        Raises:
            DeviceError: one of them is not there.
        """
        from music3_cli.devices import resolve_acoustic_devices, resolve_device

        talker = resolve_device(self.device)
        return talker, resolve_acoustic_devices(self.acoustic_device, talker)

    def default_dtype(self) -> str:
        """What the talker dtype `auto` means here."""
        from music3_cli.devices import default_talker_dtype, resolve_device

        return default_talker_dtype(resolve_device(self.device))

    def default_weights(self, checkpoint: Checkpoint) -> str:
        """What the talker weights `auto` mean here: int8 only on a GPU that is too small for the full ones."""
        from music3_cli.checkpoint.memory import sizes
        from music3_cli.devices import DTYPES, default_talker_dtype, device_memory, resolve_device

        device = resolve_device(self.device)
        if device.type == "cpu":
            return "full"
        itemsize = DTYPES[default_talker_dtype(device)].itemsize
        needed = sizes(checkpoint.components, checkpoint.architecture, itemsize)
        return default_weights(needed, device_memory(device, self.limit_bytes))

    def pipeline(self, checkpoint: Checkpoint, talker_dtype: str, talker_weights: str = "full") -> Pipeline:
        """A pipeline on these devices.

        Raises:
            DeviceError: no such device.
        """
        from music3_cli.pipeline import Pipeline

        device, acoustic_devices = self.devices()
        return Pipeline(
            checkpoint,
            device,
            talker_dtype,
            self.cuda_graph,
            acoustic_devices=acoustic_devices,
            talker_weights=talker_weights,
            placement=self.placement,
            memory_limit=self.limit_bytes,
        )

    def nominal_placement(self, checkpoint: Checkpoint) -> Placement:
        """What a four-minute song would get now.

        Raises:
            DeviceError: no such device, or nothing fits.
        """
        pipeline = self.pipeline(checkpoint, self.default_dtype(), self.default_weights(checkpoint))
        return pipeline.decide(RunLimits.nominal(checkpoint.architecture.backbone.max_position_embeddings))
