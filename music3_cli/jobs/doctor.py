"""Is this machine ready to render? One check after the other, each with what was found and what to do about it."""

from __future__ import annotations

import importlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from music3_cli.errors import CheckpointError, DeviceError, ManyErrors, Music3Error, UsageError
from music3_cli.jobs.machine import RunsOn
from music3_cli.placement import GIB, host_memory

OK, WARNING, FAILURE = "ok", "warning", "failure"

LEAST_FREE = GIB
"""An album's worth of files, roughly."""


@dataclass(frozen=True)
class Check:
    """One answer.

    Attributes:
        name: what was looked at.
        level: `ok`, `warning` (it works, but) or `failure` (it does not).
        found: in words.
        fix: what to do; empty where nothing is wrong.
        exit_code: the code of a run that meets this failure.
        facts: the same in numbers and names.
    """

    name: str
    level: str
    found: str
    fix: str = ""
    exit_code: int = 0
    facts: Mapping[str, object] = field(default_factory=dict)


def examine(on: RunsOn, checkpoint: str | None) -> Iterator[Check]:
    """All checks, as they are done.

    Args:
        on: devices as a run would be given them.
        checkpoint: as `--checkpoint` takes it.
    """
    yield _python()
    torch = _torch()
    yield torch
    if torch.level != FAILURE:
        yield from _devices(on)
    yield from _checkpoint_and_placement(on, checkpoint, torch.level != FAILURE)
    yield _cache()
    yield _disk()
    yield from _formats()


def _python() -> Check:
    here = platform.python_version()
    return Check(
        "python", OK, f"{here} on {platform.platform()}", facts={"version": here, "executable": sys.executable}
    )


def _torch() -> Check:
    try:
        import torch
    except Exception as error:  # a broken installation fails in many ways
        return Check("torch", FAILURE, f"cannot be loaded ({error})", "Install torch: https://pytorch.org.", 1)
    built = (
        f"CUDA {torch.version.cuda}" if torch.version.cuda else f"ROCm {torch.version.hip}" if torch.version.hip else ""
    )
    facts = {"version": torch.__version__, "cuda": torch.version.cuda, "threads": torch.get_num_threads()}
    return Check("torch", OK, f"{torch.__version__}, {built}", facts=facts)


def _devices(on: RunsOn) -> Iterator[Check]:
    import torch

    from music3_cli.devices import device_memory, resolve_device
    from music3_cli.kernels.triton_support import kernels_work, triton

    try:
        device = resolve_device(on.device)
    except DeviceError as error:
        yield Check("device", FAILURE, error.message, error.hint, error.exit_code)
        return
    free, total = host_memory()
    if device.type == "cpu":
        if torch.version.cuda and shutil.which("nvidia-smi") and not torch.cuda.is_available():
            fix = "The driver may be too old for this torch: update it, or install a torch for an older CUDA."
        else:
            fix = "Rendering on a CPU takes hours for a song; --checkpoint demo is quick everywhere. Use a CUDA GPU."
        found = f"cpu, {os.cpu_count()} cores, {free / GIB:.1f} of {total / GIB:.1f} GiB free; no GPU is used"
        yield Check("device", WARNING, found, fix, facts={"device": "cpu", "free_bytes": free, "total_bytes": total})
        return
    runtime, driver = torch.version.cuda or "", _driver()
    for index in range(torch.cuda.device_count()):
        each = torch.device("cuda", index)
        memory, capability = device_memory(each), torch.cuda.get_device_capability(each)
        facts = {
            "device": str(each),
            "name": memory.name,
            "capability": list(capability),
            "free_bytes": memory.free,
            "total_bytes": memory.total,
            "runtime": runtime,
            "driver": driver,
        }
        found = f"{memory.name}, {memory.free / GIB:.1f} of {memory.total / GIB:.1f} GiB free, "
        found += f"capability {capability[0]}.{capability[1]}, driver {driver or 'unknown'}, CUDA {runtime}"
        old = capability < (8, 0)
        fix = "No bf16 and no TF32 in hardware: it works, slowly. Use a GPU from 2020 on." if old else ""
        yield Check(str(each), WARNING if old else OK, found, fix, facts=facts)
    yield Check("host memory", OK, f"{free / GIB:.1f} of {total / GIB:.1f} GiB free", facts={"free_bytes": free})
    with torch.cuda.device(device):
        works = kernels_work()
    if works:
        yield Check("kernels", OK, f"Triton {triton.__version__} builds kernels here")
    else:
        fix = "Install a C compiler (gcc), and Triton where torch came without it: the talker is several times faster."
        yield Check("kernels", WARNING, "Triton cannot build kernels here", fix)


def _driver() -> str:
    """The GPU driver's version, empty where nobody tells."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return ran.stdout.splitlines()[0].strip() if ran.stdout.strip() else ""


def _checkpoint_and_placement(on: RunsOn, wanted: str | None, can_place: bool) -> Iterator[Check]:
    from music3_cli.checkpoint.locate import find_checkpoint

    try:
        found = find_checkpoint(wanted)
    except (CheckpointError, ManyErrors) as error:
        hint = error.hint if not isinstance(error, ManyErrors) else error.errors[0].hint
        yield Check("checkpoint", FAILURE, error.message, hint, error.exit_code)
        return
    facts = {"name": found.name, "path": str(found.root), "digest": found.digest, "bytes": found.weight_bytes}
    what = "random weights that make noise" if found.is_demo else f"{found.weight_bytes / 1e9:.1f} GB"
    fix = "It is for trying things out; fetch the real one with `music3 download`." if found.is_demo else ""
    yield Check(
        "checkpoint", WARNING if found.is_demo else OK, f"{found.name} ({what}), quick check passed", fix, facts=facts
    )
    if not can_place:
        return
    try:
        placement = on.nominal_placement(found)
    except Music3Error as error:
        yield Check("placement", FAILURE, error.message, error.hint, error.exit_code)
        return
    small = placement.talker_weights == "int8"
    fix = (
        "The full talker does not fit: int8 weights make other songs (--talker-weights full insists)." if small else ""
    )
    found_text = f"for a four-minute song: {placement.text}"
    yield Check("placement", WARNING if small else OK, found_text, fix, facts=placement.to_json())


def _cache() -> Check:
    from music3_cli.checkpoint.demo import cache_folder

    folder = cache_folder()
    return _folder("cache", folder, "Set MUSIC3_CACHE to a folder that can be written.", WARNING)


def _disk() -> Check:
    return _folder("output", Path.cwd(), "Change into a folder that can be written, or choose another -o.", FAILURE)


def _folder(name: str, folder: Path, fix: str, level: str) -> Check:
    there = folder
    try:
        while not there.exists() and there != there.parent:
            there = there.parent
        with tempfile.TemporaryFile(dir=there, prefix=".music3-"):
            pass
        free = shutil.disk_usage(there).free
    except OSError as error:
        return Check(name, level, f"{folder}: not writable ({error.strerror})", fix, 7 if level == FAILURE else 0)
    facts = {"path": str(folder), "free_bytes": free}
    if free < LEAST_FREE:
        return Check(name, WARNING, f"{folder}, only {free / GIB:.1f} GiB free", "Make room on this disk.", facts=facts)
    return Check(name, OK, f"{folder}, {free / GIB:.1f} GiB free", facts=facts)


def _formats() -> Iterator[Check]:
    from music3_cli.audio.formats import check_writable
    from music3_cli.audio.resample import torchaudio_resample
    from music3_cli.song.delivery import FORMATS

    missing = []
    for name in FORMATS:
        try:
            check_writable(name)
        except UsageError:
            missing.append(name)
    soundfile = importlib.import_module("soundfile")
    library = f"soundfile {soundfile.__version__} with libsndfile {soundfile.__libsndfile_version__}"
    facts = {"writable": [name for name in FORMATS if name not in missing], "missing": missing}
    if missing:
        fix = "pip install -U soundfile"
        yield Check("audio formats", WARNING, f"{library} cannot write {', '.join(missing)}", fix, facts=facts)
    else:
        yield Check("audio formats", OK, f"{', '.join(FORMATS)} ({library})", facts=facts)
    try:
        yield Check("tags", OK, f"mutagen {version('mutagen')}")
    except PackageNotFoundError:
        yield Check("tags", FAILURE, "mutagen is not installed", "pip install mutagen", 1)
    try:
        torchaudio_resample()
    except UsageError as error:
        yield Check("sample rates", WARNING, error.message, error.hint)
    else:
        yield Check("sample rates", OK, f"44100 and 32000 Hz (torchaudio {version('torchaudio')})")
