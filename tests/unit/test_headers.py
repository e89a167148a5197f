"""Weight files' headers, whatever bytes they are made of: refused with a finding, never a crash or a wait."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from music3_cli.checkpoint.findings import Fault
from music3_cli.checkpoint.headers import read_header, write_weight_file
from music3_cli.errors import ManyErrors

NUMBERS = st.one_of(st.integers(-8, 64), st.sampled_from([2**31, 2**63, 2**64, -1, 1.5, None, True, "7"]))
ENTRIES = st.fixed_dictionaries(
    {},
    optional={
        "dtype": st.sampled_from(["F32", "BF16", "F16", "I8", "F8_E4M3", "", 3, None]),
        "shape": st.one_of(st.lists(NUMBERS, max_size=3), st.just(4), st.none()),
        "data_offsets": st.one_of(st.lists(NUMBERS, max_size=3), st.none()),
    },
)
HEADERS = st.one_of(
    st.dictionaries(st.text(max_size=5), ENTRIES, max_size=4).map(lambda entries: json.dumps(entries).encode()),
    st.binary(max_size=64),
    st.sampled_from([b"[]", b"null", b"[" * 5000, b'{"a":' * 5000, b'{"__metadata__":1}']),
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    header=HEADERS,
    body=st.binary(max_size=64),
    stated=st.one_of(st.none(), st.sampled_from([0, 7, 2**20, 2**60, 2**64 - 1])),
)
def test_any_bytes_give_a_header_or_a_finding(header: bytes, body: bytes, stated: int | None, tmp_path: Path) -> None:
    file = tmp_path / "any.safetensors"
    file.write_bytes(struct.pack("<Q", len(header) if stated is None else stated) + header + body)
    try:
        read = read_header(file)
    except (Fault, ManyErrors) as error:
        assert error.exit_code == 5
        return
    total = sum(entry.stop - entry.start for entry in read.tensors.values())
    assert 8 + read.header_bytes + total == file.stat().st_size


@given(shapes=st.lists(st.lists(st.integers(0, 5), max_size=3), max_size=6))
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_written_is_read_back(shapes: list[list[int]], tmp_path: Path) -> None:
    file = tmp_path / "written.safetensors"
    tensors = [(f"t{i}", "F32" if i % 2 else "BF16", tuple(shape)) for i, shape in enumerate(shapes)]
    sizes = [(4 if dtype == "F32" else 2) * _count(shape) for _, dtype, shape in tensors]
    write_weight_file(file, tensors, (bytes(size) for size in sizes))
    assert {name: (entry.dtype, entry.shape) for name, entry in read_header(file).tensors.items()} == {
        name: (dtype, shape) for name, dtype, shape in tensors
    }


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def test_every_wrong_tensor_is_told(tmp_path: Path) -> None:
    entries = {
        "a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
        "b": {"dtype": "F32", "shape": [1], "data_offsets": [2, 6]},
        "c": {"dtype": "F32", "shape": [1], "data_offsets": [8, 12]},
    }
    raw = json.dumps(entries).encode()
    file = tmp_path / "bad.safetensors"
    file.write_bytes(struct.pack("<Q", len(raw)) + raw + bytes(12))
    with pytest.raises(ManyErrors) as found:
        read_header(file)
    assert [kind in str(error) for kind, error in zip(("overlap", "gap"), found.value.errors, strict=True)] == [
        True
    ] * 2
