"""`convert`: the native packaging into the modular one, a pure re-layout.

Everything is streamed, so that memory stays small whatever the size: a shard is never in memory, and the torch files
are mapped (`pickled.py`).
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from music3_cli.checkpoint.findings import Fault, Finding, faults, first_few
from music3_cli.checkpoint.headers import Buffer, Header, TensorEntry, tensor_blocks
from music3_cli.checkpoint.inventory import Checkpoint, survey
from music3_cli.checkpoint.layout import COMPONENTS, Component, Shapes
from music3_cli.checkpoint.native import FILE_OF, NativeFiles, check_complete, find_native, mismatch, source_of
from music3_cli.checkpoint.pickled import PickledTensors
from music3_cli.checkpoint.record import write_record
from music3_cli.checkpoint.released import released_small_files, released_table
from music3_cli.checkpoint.stock import read_files, table_of
from music3_cli.checkpoint.workers import Work, run_jobs
from music3_cli.checkpoint.write import released_index, released_shards, total_bytes, write_component
from music3_cli.errors import CheckpointError, OutputError, raise_all, system_errors_as
from music3_cli.events import Event, Note

BLOCK_BYTES = 16 * 2**20
_ROOT_FILES = ("LICENSE", "config.json")
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


@dataclass(frozen=True)
class Job:
    """A checked conversion.

    Attributes:
        shapes: component -> its tensors.
        small_files: path -> content of the files that the native packaging has not: configs and indexes.
    """

    native: NativeFiles
    dest: Path
    shapes: Mapping[str, Shapes]
    small_files: Mapping[str, bytes]

    @property
    def total_bytes(self) -> int:
        return sum(total_bytes(component, self.shapes[name]) for name, component in COMPONENTS.items())


@system_errors_as(CheckpointError)
def plan_conversion(native: Path, dest: Path, template: Checkpoint | None) -> Job:
    """Check both ends before anything is written.

    Args:
        template: where the configs come from; the native packaging has none of its own but the backbone's.

    Raises:
        CheckpointError: the native files are not all there. OutputError: the destination exists or the disk is full.
    """
    files = find_native(native)
    check_complete(files)
    if dest.exists() and (not dest.is_dir() or any(dest.iterdir())):
        raise OutputError(
            f"{dest}: exists already", hint="Name a folder that does not exist; it is made by this command."
        )
    small = released_small_files()
    if template is not None:
        paths = [path for path in (*small, *_ROOT_FILES) if (template.root / path).is_file()]
        small = {path: (template.root / path).read_bytes() for path in paths}
    shapes = {
        name: component.config.from_json(json.loads(small[f"{name}/config.json"]), Path(name)).shapes()
        for name, component in COMPONENTS.items()
    }
    job = Job(files, dest, shapes, small)
    place = dest.absolute()
    while not place.exists():
        place = place.parent
    if (free := shutil.disk_usage(place).free) < job.total_bytes:
        raise OutputError(
            f"{dest}: {job.total_bytes:,} bytes will be written, {free:,} are free on this disk", hint="Make room."
        )
    return job


def convert(job: Job) -> Generator[Event, None, None]:
    """Write the modular folder under an unfinished name, verify it, and rename it.

    Yields:
        progress and notes.

    Raises:
        CheckpointError: a file is damaged, holds something else than tensors, or lacks a tensor. OutputError: the disk.
    """
    job.dest.absolute().parent.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(dir=job.dest.absolute().parent, prefix=".music3-convert-") as work:
            made = Path(work) / "checkpoint"
            made.mkdir()
            notes = yield from run_jobs("convert", [partial(_write_all, job, made)], job.total_bytes)
            for note in notes[0]:
                yield Note(note)
            raise_all(faults(survey(made).findings))
            examined = yield from read_files(made, (), "verify")
            table = table_of(examined, job.native.root.absolute().name, "")
            if table.files == released_table().files:
                yield Note(f"byte for byte the published files of {released_table().label}")
                table = released_table()
            write_record(made, table, "convert")
            if job.dest.exists():
                job.dest.rmdir()
            made.rename(job.dest)
    except OSError as error:
        raise OutputError(
            f"{job.dest}: cannot be written ({error.strerror or error})", hint="Make room, or name another place."
        ) from None


def _write_all(job: Job, dest: Path, work: Work) -> list[str]:
    """All components and small files; gives notes on what was left out."""
    notes = []
    talker = {name: (header, header.tensors[name]) for name, header in job.native.talker_tensors().items()}
    unused = set(talker)
    pickles: dict[str, PickledTensors] = {}
    for component in COMPONENTS.values():
        shapes = job.shapes[component.name]
        if component.name in FILE_OF:
            file = FILE_OF[component.name]
            if file not in pickles:
                pickles[file] = PickledTensors(job.native.root / file)
            stream = partial(_from_pickle, pickles[file], component, work)
            pickles[file].check(component, shapes)
        else:
            _check_shards(job.native, talker, component, shapes)
            unused -= {source_of(component.name, name).name for name in shapes}
            stream = partial(_from_shards, talker, component, work)
        folder = dest / component.name
        if weight_map := write_component(folder, component, shapes, released_shards(component, shapes), stream):
            text = released_index(component, shapes, weight_map)
            (folder / component.index_file).write_text(text, encoding="utf-8")
    if unused:
        some = ", ".join(sorted(unused)[:3])
        raise Fault(
            Finding(
                "tensor",
                job.native.root / "qwen_7B" / "qwen_7B",
                f"{len(unused)} tensors that the configs do not know: {some}",
                hint="The weights are of another size: name a modular folder with the right configs with --configs.",
            )
        )
    for file, tensors in pickles.items():
        if left := tensors.unused():
            notes.append(f"{file}: {left} tensors that rendering does not need were left out")
    _write_small_files(job, dest)
    return notes


def _write_small_files(job: Job, dest: Path) -> None:
    """Everything without weights: what the job brings, what lies in the native folder, its tokenizer."""
    for path, content in job.small_files.items():
        (dest / path).parent.mkdir(exist_ok=True)
        (dest / path).write_bytes(content)
    for name in _ROOT_FILES:
        if not (dest / name).exists() and (job.native.root / name).is_file():
            shutil.copyfile(job.native.root / name, dest / name)
    (dest / "tokenizer").mkdir()
    for name in _TOKENIZER_FILES:
        if (job.native.tokenizer / name).is_file():
            shutil.copyfile(job.native.tokenizer / name, dest / "tokenizer" / name)


def _check_shards(
    native: NativeFiles, talker: Mapping[str, tuple[Header, TensorEntry]], component: Component, shapes: Shapes
) -> None:
    wrong = []
    for name, shape in shapes.items():
        source = source_of(component.name, name).name
        if source not in talker:
            file = native.root / "qwen_7B" / "qwen_7B"
            wrong.append(mismatch(file, f"tensor {source} is missing", f"shape {list(shape)}"))
            continue
        header, entry = talker[source]
        if entry.shape != shape:
            wrong.append(mismatch(header.path, f"tensor {source} has shape {list(entry.shape)}", str(list(shape))))
        elif entry.dtype != component.dtype:
            wrong.append(mismatch(header.path, f"tensor {source} is {entry.dtype}", component.dtype))
    raise_all(faults(first_few(wrong, "such tensors")))


def _from_shards(
    talker: Mapping[str, tuple[Header, TensorEntry]], component: Component, work: Work, name: str
) -> Iterator[Buffer]:
    """A tensor's bytes out of a shard, in blocks."""
    header, entry = talker[source_of(component.name, name).name]
    for block in tensor_blocks(header, entry, BLOCK_BYTES):
        work.add(len(block))
        yield block


def _from_pickle(tensors: PickledTensors, component: Component, work: Work, name: str) -> Iterator[Buffer]:
    """A tensor's bytes out of a torch file, in blocks."""
    for block in tensors.blocks(source_of(component.name, name), BLOCK_BYTES):
        work.add(len(block))
        yield block
