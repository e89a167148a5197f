"""The released checkpoint as far as it can be had without its weights: every header and small file, the rest a hole.

File sizes are the published ones to the byte; on disk it takes some hundred kilobytes.
"""

from __future__ import annotations

import json
from pathlib import Path

from music3_cli.checkpoint.demo import write_tokenizer
from music3_cli.checkpoint.headers import DTYPE_BYTES, TensorEntry
from music3_cli.checkpoint.layout import COMPONENTS, Component, Shapes
from music3_cli.checkpoint.released import released_small_files, released_table
from music3_cli.checkpoint.write import released_index, released_shards, shard_name


def released_shapes() -> dict[str, Shapes]:
    small = released_small_files()
    return {
        name: component.config.from_json(json.loads(small[f"{name}/config.json"]), Path(name)).shapes()
        for name, component in COMPONENTS.items()
    }


def header_bytes(component: Component, names: list[str], shapes: Shapes) -> tuple[bytes, int]:
    """A header as safetensors writes it, and the bytes that follow it."""
    entries: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name in names:
        start, end = (
            end,
            end + TensorEntry(component.dtype, shapes[name], 0, 0).parameters * DTYPE_BYTES[component.dtype],
        )
        entries[name] = {"dtype": component.dtype, "shape": list(shapes[name]), "data_offsets": [start, end]}
    raw = json.dumps(entries, separators=(",", ":")).encode()
    raw += b" " * (-len(raw) % 8)
    return len(raw).to_bytes(8, "little") + raw, end


def write_hollow_release(dest: Path) -> None:
    """Write the 24 files into the new folder `dest`. Licence, root config and tokenizer are padded stand-ins."""
    table = released_table().files
    for component in COMPONENTS.values():
        shapes = released_shapes()[component.name]
        shards = released_shards(component, shapes)
        folder = dest / component.name
        folder.mkdir(parents=True)
        weight_map = {}
        for number, names in enumerate(shards, start=1):
            file = shard_name(component, number, len(shards))
            head, body = header_bytes(component, names, shapes)
            with (folder / file).open("wb") as stream:
                stream.write(head)
                stream.truncate(len(head) + body)
            weight_map.update(dict.fromkeys(names, file))
        if len(shards) > 1:
            (folder / component.index_file).write_text(released_index(component, shapes, weight_map), encoding="utf-8")
    for path, content in released_small_files().items():
        (dest / path).parent.mkdir(exist_ok=True)
        (dest / path).write_bytes(content)
    write_tokenizer(dest / "tokenizer")
    (dest / "config.json").write_text("{}")
    (dest / "LICENSE").write_text("")
    for path in (
        "LICENSE",
        "config.json",
        *(f"tokenizer/{name}" for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")),
    ):
        content = (dest / path).read_bytes().rstrip()
        (dest / path).write_bytes(content.ljust(table[path].bytes))
