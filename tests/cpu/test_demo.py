"""The demo checkpoint: the released layout in miniature, the same bytes everywhere."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from music3_cli.checkpoint.demo import DEMO_REVISION, write_demo
from music3_cli.checkpoint.record import RECORD_FILE
from music3_cli.song.prompt import SPECIAL_TOKENS
from tests.conftest import ROOT
from tests.support.stages import Stages

CONTENT = {4: "295b2ad35bc8b449e50c3537d4bbf6b08501308d056e13b75da1876e7326bb2e"}
"""Digest of all files for each DEMO_REVISION: new content needs a new revision, or caches would hold the old one."""


def test_content_belongs_to_its_revision(tmp_path: Path) -> None:
    write_demo(tmp_path / "demo")
    total = hashlib.sha256()
    for path in sorted((tmp_path / "demo").rglob("*")):
        if path.is_file():
            total.update(
                f"{path.relative_to(tmp_path).as_posix()} {path.stat().st_size}\n".encode() + path.read_bytes()
            )
    assert total.hexdigest() == CONTENT[DEMO_REVISION]


def test_it_has_exactly_the_released_files_and_is_small(demo_root: Path) -> None:
    released = json.loads((ROOT / "music3_cli/checkpoint/released.json").read_text())
    there = {
        path.relative_to(demo_root).as_posix(): path.stat().st_size
        for path in demo_root.rglob("*")
        if path.is_file() and path.name != RECORD_FILE
    }
    assert set(there) == {file["path"] for file in released["files"]}
    assert sum(there.values()) < 80e6


def test_special_ids_are_the_real_ones(stages: Stages) -> None:
    for token, number in SPECIAL_TOKENS.items():
        assert stages.tokenizer.encode(token) == (number,)


def test_diffusers_loads_it(oracle) -> None:
    names = (
        "tokenizer",
        "language_model",
        "rvq_depth_decoder",
        "condition_encoder",
        "transformer",
        "scheduler",
        "vocoder",
    )
    assert all(getattr(oracle, name) is not None for name in names)
    assert oracle.frame_rate == 25 and oracle.sampling_rate == 44100
