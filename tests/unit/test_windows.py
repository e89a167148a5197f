"""Window arithmetic against the published lengths."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from music3_cli.acoustic.windows import count_windows, plan_windows, song_samples, window_at
from music3_cli.checkpoint.layout import COMPONENTS, ConditionConfig
from tests.conftest import ROOT

RELEASED = json.loads((ROOT / "music3_cli" / "checkpoint" / "released.json").read_text())
CONDITION = ConditionConfig.from_json(RELEASED["components"]["condition_encoder"]["config"], "released")


@pytest.mark.parametrize(
    ("frames", "latents"), [(25, 86), (250, 861), (500, 1724), (750, 2586), (1500, 5174), (9000, 31049)]
)
def test_exact_lengths(frames: int, latents: int) -> None:
    assert song_samples(frames, CONDITION) == 512 * latents


@pytest.mark.parametrize(
    ("frames", "windows"), [(1, 1), (199, 1), (200, 1), (201, 2), (300, 2), (301, 3), (400, 3), (401, 4), (9000, 89)]
)
def test_window_counts(frames: int, windows: int) -> None:
    assert len(plan_windows(frames, CONDITION)) == windows


def test_a_middle_window_keeps_345_latents() -> None:
    middle = plan_windows(500, CONDITION)[1]
    assert middle.latents == 689
    assert middle.keep_stop - middle.keep_start == 345


@given(st.integers(1, 9000))
def test_windows_cover_the_song(frames: int) -> None:
    windows = plan_windows(frames, CONDITION)
    assert windows[0].start == 0 and windows[-1].stop == frames
    for one, following in zip(windows, windows[1:], strict=False):
        assert following.start == one.start + 100 and one.stop == one.start + 200
        assert following.stop - following.start > 100
    assert all(0 <= window.keep_start < window.keep_stop <= window.latents for window in windows)


@given(st.integers(1, 1500), st.lists(st.integers(1, 300), max_size=8))
def test_windows_of_a_growing_song_are_those_of_the_whole(frames: int, growth: list[int]) -> None:
    """Whatever is known when, a window that is told is never another one later."""
    whole, told, known = plan_windows(frames, CONDITION), [], 0
    for more in [*growth, frames]:
        known = min(frames, known + more)
        while (window := window_at(len(told), known, False, CONDITION)) is not None:
            told.append(window)
        assert all(window.stop < known for window in told)
        # A window waits for the first frame behind it, and for nothing else.
        assert len(told) == len(whole) or whole[len(told)].stop >= known
    while (window := window_at(len(told), frames, True, CONDITION)) is not None:
        told.append(window)
    assert told == whole and len(whole) == count_windows(frames)


def test_the_configs_imply_the_released_tensors() -> None:
    count = 0
    for name, component in COMPONENTS.items():
        released = RELEASED["components"][name]
        shapes = component.config.from_json(released["config"], name).shapes()
        assert shapes == {tensor: tuple(shape) for tensor, shape in released["tensors"].items()}
        assert component.dtype == released["dtype"]
        count += len(shapes)
    assert count == 1012
