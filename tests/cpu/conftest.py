"""Loaded or rendered once: the demo checkpoint's stages, diffusers' pipeline on the same folder, a small batch."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.conftest import run_main
from tests.support.batch_runs import FLAGS, MANIFEST, contents
from tests.support.stages import Stages, load_stages


@pytest.fixture(scope="session")
def stages(demo_root: Path) -> Stages:
    return load_stages(demo_root)


@pytest.fixture(scope="session")
def oracle(demo_root: Path):
    """diffusers' whole pipeline in fp32, from the same files."""
    diffusers = pytest.importorskip("diffusers")
    import torch

    pipeline = diffusers.ModularPipeline.from_pretrained(str(demo_root))
    pipeline.load_components(pretrained_model_name_or_path=str(demo_root), dtype=torch.float32)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


@pytest.fixture
def manifest() -> Path:
    path = Path("m.yaml")
    path.write_text(MANIFEST)
    return path


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the manifest gives in one run, file by file."""
    folder = tmp_path_factory.mktemp("plain")
    (folder / "m.yaml").write_text(MANIFEST)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("MUSIC3_PRESETS", str(folder / "no-presets"))
        patch.setattr(sys, "argv", ["music3", "batch", "m.yaml", *FLAGS, "-o", "out", "-q"])
        assert run_main() == 0
    return contents(folder / "out")
