"""What runs where and how much of it at once: one decision from sizes and free memory. Pure arithmetic, no torch.

The choices, best first: both stages *resident* on one device, or each on a device of its own; the stages *swapped*, one
at a time on the device, once for every group of songs. With int8 weights the talker takes half the memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from music3_cli.checkpoint.memory import Sizes
from music3_cli.errors import DeviceError

GIB = 2**30

GRAPH_BYTES = GIB // 2
"""Captured steps of all bucket sizes, and the workspaces of libraries."""
SPARE = 1 / 32
"""Share of a device that nobody plans with: memory between blocks."""
MOST_GROUP = 64
"""Songs of a group that share one swap; more would only make the first files late."""
HOST_SHARE = 0.6
"""Of the free host memory, what weights and frames between the stages may take."""

NOMINAL_PROMPT, NOMINAL_FRAMES = 1500, 6000
"""A four-minute song, for decisions that must not depend on the songs at hand."""

KINDS = ("auto", "resident", "swap")
WEIGHTS = ("full", "int8")


@dataclass(frozen=True)
class RunLimits:
    """What a run must have room for.

    Attributes:
        songs: how many there are; no more than these run at once.
        positions: context of the longest song: its prompt, the unemitted first step and all frames.
        frames: the highest ceiling.
        fp16, tf32: which songs have float16, and TF32, products in the acoustic stage: `none`, `some` or `all`.
    """

    songs: int
    positions: int
    frames: int
    fp16: str = "none"
    tf32: str = "none"

    @classmethod
    def of(cls, lengths: Iterable[tuple[int, int]], precisions: Iterable[str] = ()) -> RunLimits:
        """For songs given as (prompt tokens, ceiling in frames), at least one, and their precisions."""
        songs, kinds = list(lengths), set(precisions)
        fp16, tf32 = (
            "none" if precision not in kinds else "all" if len(kinds) == 1 else "some" for precision in ("fp16", "tf32")
        )
        positions = max(prompt + frames + 1 for prompt, frames in songs)
        return cls(len(songs), positions, max(frames for _, frames in songs), fp16, tf32)

    @classmethod
    def nominal(cls, most_positions: int) -> RunLimits:
        """One four-minute song, within the model's context."""
        frames = min(NOMINAL_FRAMES, most_positions // 2)
        return cls(1, min(NOMINAL_PROMPT + frames + 1, most_positions), frames)


@dataclass(frozen=True)
class DeviceMemory:
    """A device and its memory in bytes; 0 where nobody knows.

    Attributes:
        device: such as `cuda:0`.
        name: as people call it.
    """

    device: str
    name: str
    free: int
    total: int


@dataclass(frozen=True)
class Machine:
    """What a placement is decided from.

    Attributes:
        talker: the talker's device.
        acoustic: those of the acoustic stage; the talker's own, or others.
        host_free: bytes of host memory; 0 where nobody knows.
        most_songs: that may share a step of the talker.
        rounds_tf32: whether TF32 songs have rounded matrices in the acoustic stage (kernels/tf32.py).
    """

    talker: DeviceMemory
    acoustic: tuple[DeviceMemory, ...]
    host_free: int
    most_songs: int
    rounds_tf32: bool = False

    @property
    def is_split(self) -> bool:
        return any(one.device != self.talker.device for one in self.acoustic)

    @property
    def is_host(self) -> bool:
        """Whether device memory is host memory."""
        return self.talker.device == "cpu"


@dataclass(frozen=True)
class Placement:
    """The decision. All sizes in bytes.

    Attributes:
        kind: `resident`, `split` (the stages on different devices) or `swap`.
        talker_device, acoustic_devices: their names.
        talker_weights: `full` or `int8`.
        acoustic_weights: of the transformer's matrices, `fp32` (and float16 copies where songs want them) or `fp16`.
        songs: that share the talker's step.
        group: songs between two swaps; 0 where nothing is swapped.
        weights_kept: where the weights of the absent stage are: `device`, `host` or `disk`.
        talker_bytes, acoustic_bytes: weights.
        song_bytes: each song in a slot.
        work_bytes: what the acoustic stage's windows need besides.
        free: of the talker's device when this was decided.
    """

    kind: str
    talker_device: str
    acoustic_devices: tuple[str, ...]
    talker_weights: str
    acoustic_weights: str
    songs: int
    group: int
    weights_kept: str
    talker_bytes: int
    acoustic_bytes: int
    song_bytes: int
    work_bytes: int
    free: int

    @property
    def text(self) -> str:
        """The decision in a sentence or two."""
        weights = f"talker {_gib(self.talker_bytes)}{' in int8' if self.talker_weights == 'int8' else ''}"
        half = " in fp16" if self.acoustic_weights == "fp16" else ""
        acoustic = f"acoustic stage {_gib(self.acoustic_bytes)}{half} and {_gib(self.work_bytes)} for its work"
        songs = f"{self.songs} song{'s' * (self.songs != 1)} at once, {_gib(self.song_bytes)} each"
        free = f"; {_gib(self.free)} free" if self.free else ""
        if self.kind == "split":
            where = ", ".join(self.acoustic_devices)
            return f"talker on {self.talker_device} ({weights}), {acoustic} on {where}; {songs}{free}"
        if self.kind == "resident":
            return f"both stages on {self.talker_device}: {weights}, {acoustic}; {songs}{free}"
        kept = "kept in host memory" if self.weights_kept == "host" else "read again from disk"
        return (
            f"stages on {self.talker_device} by turns, swapped every {self.group} song{'s' * (self.group != 1)}: "
            f"{weights}, then {acoustic}; {songs}; weights {kept}{free}"
        )

    def to_json(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__} | {"text": self.text}

    def smaller(self) -> Placement | None:
        """What to try when this one was out of memory: fewer songs at once, then a swap; None where it is the least."""
        if self.songs > 1:
            return replace(self, songs=max(1, self.songs // 4), group=max(1, self.group // 4) if self.group else 0)
        if self.kind == "resident":
            return replace(self, kind="swap", group=1, weights_kept="disk")
        return None


def default_weights(sizes: Sizes, memory: DeviceMemory) -> str:
    """What `--talker-weights auto` means: int8 where the full talker does not fit even alone.

    Decided from the size of the card, not from what is free now: the weights are part of a song, and the same command
    has to find its songs again.
    """
    limits = RunLimits.nominal(sizes.most_positions)
    full = _talker_stage(sizes, limits, "full", 1)
    return "int8" if memory.total and full > memory.total * (1 - SPARE) else "full"


def decide(sizes: Sizes, limits: RunLimits, machine: Machine, weights: str = "full", kind: str = "auto") -> Placement:
    """The best placement that fits.

    Args:
        weights: the talker's, `full` or `int8`.
        kind: `resident` or `swap` where the user wants that one.

    Raises:
        DeviceError: none fits, with what is missing.
    """
    kinds = ["split"] if machine.is_split else ["resident", "swap"] if kind == "auto" else [kind]
    # Half matrices are for songs that use no others, and only where both do not fit: a window that is solved again in a
    # wider precision has full ones elsewhere.
    acoustic = ["fp32", "fp16"] if limits.fp16 == "all" else ["fp32"]
    tried = [_place(sizes, limits, machine, weights, part, each) for part in acoustic for each in kinds]
    for placement in tried:
        if isinstance(placement, Placement):
            return placement
    raise _does_not_fit(sizes, limits, machine, weights, min(missing for missing in tried if isinstance(missing, int)))


def _place(
    sizes: Sizes, limits: RunLimits, machine: Machine, weights: str, matrices: str, kind: str
) -> Placement | int:
    """A placement of this kind, or the bytes that it lacks with one song."""
    talker, acoustic = sizes.talker[weights], sizes.acoustic
    if limits.fp16 != "none":
        acoustic += sizes.half if matrices == "fp32" else -sizes.half
    if limits.tf32 == "some" and machine.rounds_tf32:
        acoustic += 2 * sizes.half
    frames = limits.frames * sizes.frame
    cache = limits.positions * sizes.position + sizes.ring
    alone = _talker_stage(sizes, limits, weights, 0)
    room = _usable(machine.talker)
    if kind == "swap":
        base, a_song = alone, cache
        lacking = max(acoustic + sizes.work - room, base + a_song - room)
    elif kind == "resident":
        # A finished song's frames stay until they are sound: one song more than those in the slots.
        base, a_song = alone + acoustic + sizes.work + frames, cache + frames
        lacking = base + a_song - room
    else:
        base, a_song = alone + frames, cache + frames
        lacking = max([base + a_song - room, *(acoustic + sizes.work - _usable(one) for one in machine.acoustic)])
        if machine.talker.device in {one.device for one in machine.acoustic}:
            base += acoustic + sizes.work
            lacking = max(lacking, base + a_song - room)
    known = bool(machine.talker.free) and all(one.free for one in machine.acoustic)
    if lacking > 0 and known:
        return lacking
    songs = min(machine.most_songs, limits.songs)
    if known:
        songs = max(1, min(songs, (room - base) // a_song))
    group, kept = 0, "device"
    if kind == "swap":
        group, kept = _swap(talker, acoustic, frames, limits, machine, songs)
    devices = tuple(one.device for one in machine.acoustic)
    return Placement(
        kind, machine.talker.device, devices, weights, matrices, songs, group, kept, talker, acoustic, a_song,
        sizes.work, machine.talker.free,
    )  # fmt: skip


def _swap(talker: int, acoustic: int, frames: int, limits: RunLimits, machine: Machine, songs: int) -> tuple[int, str]:
    """Songs of a group, and where weights are kept: the host's memory has to hold both."""
    most = min(limits.songs, MOST_GROUP)
    if machine.is_host:  # host memory is what there was too little of
        return min(most, songs), "disk"
    room = int(machine.host_free * HOST_SHARE) if machine.host_free else 0
    kept = "host" if room - talker - acoustic >= songs * frames else "disk"
    left = room - (talker + acoustic if kept == "host" else 0)
    return max(1, min(most, left // max(1, frames))) if machine.host_free else min(most, songs), kept


def _talker_stage(sizes: Sizes, limits: RunLimits, weights: str, songs: int) -> int:
    """Weights, graphs, the longest prompt's activations, and slots."""
    prompt = limits.positions - limits.frames
    slots = songs * (limits.positions * sizes.position + sizes.ring)
    return sizes.talker[weights] + GRAPH_BYTES * (not sizes.is_small) + prompt * sizes.prefill + slots


def _usable(memory: DeviceMemory) -> int:
    return memory.free - int(memory.total * SPARE)


def _does_not_fit(sizes: Sizes, limits: RunLimits, machine: Machine, weights: str, missing: int) -> DeviceError:
    memory = machine.talker
    need = memory.free + missing
    ways = ["End other programs on this GPU"] if not machine.is_host else ["End other programs"]
    ways.append("shorten --max-duration")
    if weights == "full" and sizes.talker["int8"] < sizes.talker["full"]:
        ways.append("use --talker-weights int8 (half the talker's memory; it changes the song)")
    if not machine.is_host:
        ways.append("or use --device cpu")
    return DeviceError(
        f"device {memory.device}: {_gib(need)} are needed in the smallest plan, {_gib(memory.free)} are free "
        f"({_gib(missing)} missing)",
        hint=", ".join(ways) + ".",
    )


def host_memory() -> tuple[int, int]:
    """Free and total host memory in bytes, a container's limit respected; 0 where the system does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        facts = {name: int(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in lines)}
        free, total = facts["MemAvailable"], facts["MemTotal"]
    except (OSError, KeyError, ValueError, IndexError):
        try:
            total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        except (AttributeError, OSError, ValueError):
            return 0, 0
        return total, total
    return _within_container(free, total)


def _within_container(free: int, total: int) -> tuple[int, int]:
    group = Path("/sys/fs/cgroup")
    try:
        limit = int((group / "memory.max").read_text(encoding="ascii"))
        used = int((group / "memory.current").read_text(encoding="ascii"))
        cached = dict(line.split() for line in (group / "memory.stat").read_text(encoding="ascii").splitlines())
        used -= int(cached.get("inactive_file", 0))  # given back when asked for
    except (OSError, ValueError):
        return free, total
    return min(free, max(0, limit - used)), min(total, limit)


def _gib(count: int) -> str:
    return f"{count / GIB:.1f} GiB"
