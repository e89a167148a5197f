"""What a batch's songs need at most: time, disk and memory. No torch."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from music3_cli.checkpoint import memory
from music3_cli.jobs.batch.plan import BatchPlan
from music3_cli.jobs.batch.record import read_pace
from music3_cli.song.delivery import Delivery
from music3_cli.song.limits import frames_to_seconds

LOSSLESS_SHARE = {"wav": 1.0, "flac": 0.75}
"""Of the plain samples' size."""

LOSSY_BITS_A_SECOND = (48_000, 260_000)
"""At quality 0 and 10, about; the three lossy formats differ by less than a half."""


@dataclass(frozen=True)
class Estimate:
    """At most, if every song reaches its ceiling.

    Attributes:
        pace: seconds of sound a second, of the last run into this folder; None where there was none.
        seconds: by that pace.
        weight_bytes: device memory of both stages' weights.
        song_bytes: device memory that the longest song adds.
    """

    frames: int
    pace: float | None
    seconds: float | None
    disk_bytes: int
    weight_bytes: int
    song_bytes: int

    def to_json(self) -> dict[str, object]:
        return asdict(self)


def estimate_of(plan: BatchPlan) -> Estimate:
    requests = [song.request for song in plan.to_render]
    frames = sum(request.max_frames for request in requests)
    pace = read_pace(plan.folder, plan.shard)
    disk = sum(frames_to_seconds(request.max_frames) * bytes_a_second(request.delivery) for request in requests)
    components, architecture = plan.checkpoint.components, plan.checkpoint.architecture
    itemsize = 4 if requests and requests[0].talker_dtype == "fp32" else 2
    positions = max((len(request.prompt.ids) + request.max_frames + 1 for request in requests), default=0)
    return Estimate(
        frames,
        pace,
        frames_to_seconds(frames) / pace if pace else None,
        round(disk),
        memory.talker_bytes(components, architecture, itemsize) + memory.acoustic_bytes(components),
        memory.cache_bytes(architecture.backbone, positions, itemsize),
    )


def bytes_a_second(delivery: Delivery) -> float:
    """Of a file, about."""
    if delivery.quality is not None:
        low, high = LOSSY_BITS_A_SECOND
        return (low + (high - low) * delivery.quality / 10) / 8
    return delivery.sample_rate * 2 * (delivery.bits or 32) / 8 * LOSSLESS_SHARE[delivery.format]
