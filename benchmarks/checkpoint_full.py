"""What the checkpoint commands cost at full size: inspect, verify against the disk's own speed, --deep, convert.

Usage: python3 benchmarks/checkpoint_full.py FOLDER [--skip inspect,verify,deep,convert] [--work FOLDER] [--keep]

FOLDER is a modular checkpoint, such as `benchmarks/make_checkpoint.py` writes (28.5 GB of random weights), or `demo`.
Where it has no completion record one is written, so that `verify` has digests to compare with. The conversion makes a
native packaging from it first, which needs the checkpoint's size twice on the disk (--work names where); it is left
out, with a line that says so, where the room is missing. Every command runs in a process of its own; peak memory is
that process's greatest resident set. With rights to drop the page cache the disk is read cold, else a line says that it
was not. Exits with 1 if anything was not as it should be.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from music3_cli.checkpoint.headers import Buffer, tensor_blocks, write_weight_file
from music3_cli.checkpoint.inventory import Checkpoint, open_checkpoint
from music3_cli.checkpoint.locate import find_place
from music3_cli.checkpoint.native import FLOW_FILE, TALKER_FOLDER, TOKENIZER_FOLDER, VOCODER_FILE, Source, source_of
from music3_cli.checkpoint.record import read_record, write_record
from music3_cli.checkpoint.stock import checkpoint_files, read_files, table_of
from music3_cli.checkpoint.workers import finish
from music3_cli.cli.console import data as say

PARTS = ("inspect", "verify", "deep", "convert")
NATIVE_SHARDS = 48
BLOCK_BYTES = 8 * 2**20


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str
    seconds: float
    peak_bytes: int


def run(*args: object) -> Ran:
    """One music3 command in a process of its own."""
    command = [sys.executable, "-m", "music3_cli", *map(str, args)]
    root = str(Path(__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=out, stderr=err, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        return Ran(process.returncode, out.read(), err.read(), seconds, usage.ru_maxrss * 1024)


def drop_cache() -> bool:
    """Make the next reading come from the disk, if this process may."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3\n")
    except OSError:
        return False
    return True


def forget(files: list[Path]) -> bool:
    """Ask the system to forget these files' pages, where it lets everybody ask."""
    if not hasattr(os, "posix_fadvise"):
        return False
    for file in files:
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
    return True


def read_through(files: list[Path], threads: int) -> float:
    """Seconds to read all files, doing nothing with them: what the disk (or the cache) gives."""

    def read(file: Path) -> None:
        buffer = memoryview(bytearray(BLOCK_BYTES))
        with file.open("rb", buffering=0) as stream:
            while stream.readinto(buffer):
                pass

    started = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(read, sorted(files, key=lambda file: -file.stat().st_size)))
    return time.perf_counter() - started


def measure_inspect(root: Path) -> bool:
    runs = [run("inspect", "checkpoint", root, "--json") for _ in range(3)]
    if any(one.code for one in runs):
        say(f"inspect: FAILED with {runs[0].code}: {runs[0].err.strip()[:300]}")
        return False
    totals = json.loads(runs[0].out)["totals"]
    times = ", ".join(f"{one.seconds:.2f}" for one in runs)
    say(
        f"inspect: {times} s a run, start of the program included; {totals['tensors']:,} tensors, "
        f"{totals['parameters']:,} parameters, {totals['bytes']:,} bytes in {totals['files']} files; "
        f"peak memory {runs[0].peak_bytes / 1e6:.0f} MB"
    )
    return True


def measure_verify(root: Path) -> bool:
    files = [root / path for path in checkpoint_files(root)]
    total = sum(file.stat().st_size for file in files)
    good = True
    for state, prepare in (("cold", lambda: drop_cache() or forget(files)), ("warm", lambda: True)):
        cleared = prepare()
        disk = read_through(files, 8)
        prepare()
        ran = run("verify", root, "--json", "--no-progress")
        if ran.code:
            say(f"verify, {state}: FAILED with {ran.code}: {(ran.out + ran.err).strip()[:600]}")
            return False
        report = json.loads(ran.out)
        note = "" if cleared else " (the page cache could not be emptied: this is warm too)"
        took = report["seconds"]
        say(
            f"verify, {state}: {total / 1e9:.2f} GB in {took:.2f} s = {total / took / 1e9:.2f} GB/s "
            f"({ran.seconds:.2f} s with the program's start); peak memory {ran.peak_bytes / 1e6:.0f} MB"
        )
        say(
            f"  the same files only read, 8 at once: {disk:.2f} s = {total / disk / 1e9:.2f} GB/s; "
            f"verify is at {100 * disk / took:.0f} % of that{note}"
        )
        good = good and report["ok"]
    return good


def measure_deep(root: Path) -> bool:
    ran = run("verify", root, "--deep", "--json", "--no-progress")
    if ran.code not in (0, 5) or not ran.out:
        say(f"deep: FAILED with {ran.code}: {ran.err.strip()[:300]}")
        return False
    report = json.loads(ran.out)
    say(
        f"deep: {report['bytes'] / 1e9:.2f} GB in {report['seconds']:.2f} s = "
        f"{report['bytes'] / report['seconds'] / 1e9:.2f} GB/s; {len(report['findings'])} findings; "
        f"peak memory {ran.peak_bytes / 1e6:.0f} MB"
    )
    for name, row in report["statistics"].items():
        say(
            f"  {name}: {row['tensors']} tensors, {row['values']:,} values, {row['not_finite']} not finite, "
            f"{row['smallest']:.4g} .. {row['largest']:.4g}, mean {row['mean']:.4g}, deviation {row['deviation']:.4g}"
        )
    for finding in report["findings"][:5]:
        say(f"  {finding['kind']}: {finding['file']}: {finding['found']}")
    return ran.code == 0


def write_native(checkpoint: Checkpoint, dest: Path) -> None:
    """A native packaging of the checkpoint's weights: 48 shards and two torch files, streamed where it can be."""
    talker: dict[str, tuple[str, tuple[int, ...], Callable[[], Iterator[Buffer]]]] = {}
    for component in ("language_model", "rvq_depth_decoder"):
        for name, (header, entry) in checkpoint.components[component].tensors.items():
            stream = partial(tensor_blocks, header, entry, BLOCK_BYTES)
            talker[source_of(component, name).name] = (entry.dtype, entry.shape, stream)
    folder = dest / TALKER_FOLDER
    folder.mkdir(parents=True)
    names, shards = sorted(talker), min(NATIVE_SHARDS, len(talker))
    weight_map = {}
    for number in range(shards):
        own = names[number::shards]
        file = f"model-{number + 1:05d}-of-{shards:05d}.safetensors"
        blocks = (block for name in own for block in talker[name][2]())
        write_weight_file(folder / file, [(name, *talker[name][:2]) for name in own], blocks)
        weight_map.update(dict.fromkeys(own, file))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    write_torch_file(checkpoint, ("transformer", "condition_encoder"), dest / FLOW_FILE)
    write_torch_file(checkpoint, ("vocoder",), dest / VOCODER_FILE)
    shutil.copytree(checkpoint.root / "tokenizer", dest / TOKENIZER_FOLDER)
    for name in ("LICENSE", "config.json"):
        if (checkpoint.root / name).is_file():
            shutil.copyfile(checkpoint.root / name, dest / name)


def write_torch_file(checkpoint: Checkpoint, components: tuple[str, ...], file: Path) -> None:
    """torch writes all at once: the tensors are mapped from the shards, only fused ones are in memory."""
    import torch
    from safetensors import safe_open

    parts: dict[str, dict[int, Any]] = {}
    for component in components:
        for header in checkpoint.components[component].headers:
            with safe_open(header.path, framework="pt", device="cpu") as tensors:
                for name in tensors.keys():  # noqa: SIM118  (not a mapping)
                    source: Source = source_of(component, name)
                    parts.setdefault(source.name, {})[source.part] = tensors.get_tensor(name)
    whole = {name: torch.cat([p[i] for i in sorted(p)]) if len(p) > 1 else p[0] for name, p in parts.items()}
    torch.save(whole, file)


def measure_convert(root: Path, work: Path, keep: bool) -> bool:
    checkpoint = open_checkpoint(root)
    needed, free = int(2.05 * checkpoint.weight_bytes) + 2**30, shutil.disk_usage(work).free
    if free < needed:
        say(f"convert: left out: {needed / 1e9:.1f} GB are needed in {work}, {free / 1e9:.1f} GB are free")
        return True
    folder = Path(tempfile.mkdtemp(dir=work, prefix="music3-native-"))
    try:
        started = time.perf_counter()
        # In a process of its own: torch.save wants all of a file's tensors at once, and the memory back afterwards.
        code = os.fork()
        if code == 0:
            try:
                write_native(checkpoint, folder / "native")
            except BaseException as error:
                say(f"convert: the native packaging could not be made: {error!r}")
                os._exit(1)
            os._exit(0)
        if os.waitpid(code, 0)[1]:
            return False
        made = [file for file in (folder / "native").rglob("*") if file.is_file()]
        size = sum(file.stat().st_size for file in made)
        seconds = time.perf_counter() - started
        say(f"convert: native packaging of {size / 1e9:.2f} GB in {len(made)} files made in {seconds:.1f} s")
        converted = folder / "converted"
        ran = run(
            "convert", folder / "native", converted, "--configs", root, "--check", root, "--json", "--no-progress"
        )
        if ran.code:
            say(f"convert: FAILED with {ran.code}: {(ran.out[-600:] + ran.err[-600:]).strip()}")
            return False
        last = json.loads(ran.out.splitlines()[-1])
        check = last["check"]
        tensors = check["equal"] + len(check["different"]) + len(check["missing"])
        steps = [json.loads(line) for line in ran.out.splitlines()]
        times = {step["work"]: step["seconds"] for step in steps if step["event"] == "work_finished"}
        rate = last["bytes"] / times["convert"] / 1e9
        say(
            f"convert: {ran.seconds:.1f} s in all: convert {times['convert']:.1f} s = {rate:.2f} GB/s, "
            f"verify {times['verify']:.1f} s, check {times['check']:.1f} s"
        )
        say(
            f"  {check['equal']} of {tensors} tensors equal, {len(check['different'])} different, "
            f"{len(check['missing'])} missing; peak memory {ran.peak_bytes / 1e9:.2f} GB "
            f"({'under' if ran.peak_bytes < 6e9 else 'OVER'} 6 GB)"
        )
        return not check["different"] and not check["missing"] and ran.peak_bytes < 6e9
    finally:
        if keep:
            say(f"convert: kept in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", help="modular folder, or demo")
    parser.add_argument("--skip", default="", help=f"parts to leave out, with commas: {','.join(PARTS)}")
    parser.add_argument("--work", type=Path, help="where to convert; by default beside the checkpoint")
    parser.add_argument("--keep", action="store_true", help="keep the native and the converted folder")
    options = parser.parse_args()
    skip = {part for part in options.skip.split(",") if part}
    if unknown := skip - set(PARTS):
        parser.error(f"--skip {','.join(sorted(unknown))}: one of {', '.join(PARTS)}")
    root = find_place(options.checkpoint).root.resolve()
    checkpoint = open_checkpoint(root)
    say(f"checkpoint: {root}, {checkpoint.weight_bytes / 1e9:.2f} GB of weights; {os.cpu_count()} CPU cores")
    if read_record(root) is None:
        started = time.perf_counter()
        write_record(root, table_of(finish(read_files(root, (), "verify")), root.name, ""), "convert")
        say(f"record: written in {time.perf_counter() - started:.1f} s, so that verify has digests to compare with")
    work = options.work or root.parent
    parts = {
        "inspect": partial(measure_inspect, root),
        "verify": partial(measure_verify, root),
        "deep": partial(measure_deep, root),
        "convert": partial(measure_convert, root, work, options.keep),
    }
    good = True
    for name, measure in parts.items():
        if name in skip:
            say(f"{name}: skipped")
            continue
        try:
            good = measure() and good
        except Exception as error:  # one part's trouble is no reason to lose the others
            say(f"{name}: FAILED: {error!r}")
            good = False
    say(f"peak memory of this script {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")
    say("all as it should be" if good else "NOT all as it should be")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
