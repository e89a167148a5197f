"""What a file is: settings, the output's ending, and what contradicts what."""

from __future__ import annotations

from typing import Any

import pytest

from music3_cli.errors import UsageError
from music3_cli.song.delivery import FORMATS, Delivery, make_delivery
from music3_cli.song.settings import Layer, resolve


def delivery(ending: str | None = None, **flags: Any) -> Delivery:
    return make_delivery(resolve([Layer(flags, {name: f"--{name}" for name in flags}, is_flags=True)]), ending)


def test_default_is_16_bit_wav_at_the_models_rate_with_dither() -> None:
    assert delivery() == Delivery("wav", "16", None, 44_100, "none", True)


@pytest.mark.parametrize(
    ("ending", "format"),
    [
        ("wav", "wav"),
        ("wave", "wav"),
        ("flac", "flac"),
        ("mp3", "mp3"),
        ("ogg", "ogg"),
        ("oga", "ogg"),
        ("opus", "opus"),
    ],
)
def test_format_follows_the_ending(ending: str, format: str) -> None:
    assert delivery(ending).format == format
    assert delivery(ending, format=format).format == format


def test_what_does_not_apply_is_none_so_that_equal_files_have_equal_keys() -> None:
    assert delivery("wav", bit_depth="float", dither=False) == delivery("wav", bit_depth="float")
    assert delivery("mp3").bit_depth is None
    assert delivery("mp3", quality="8") == delivery("mp3")
    assert delivery("opus").sample_rate == 48_000


def test_everything_that_changes_samples_changes_the_settings_of_the_key() -> None:
    variants = [
        delivery(),
        delivery(bit_depth=24),
        delivery(bit_depth="float"),
        delivery(dither=False),
        delivery(sample_rate=32000),
        delivery(normalize="peak"),
        delivery(normalize="loudness"),
        delivery(normalize="loudness=-16"),
        *(delivery(name) for name in ("flac", "mp3", "ogg", "opus")),
        delivery("mp3", quality=3),
    ]
    assert len({str(sorted(variant.audio_settings().items(), key=str)) for variant in variants}) == len(variants)


@pytest.mark.parametrize(
    ("ending", "flags", "message"),
    [
        ("wav", {"format": "flac"}, "ending .wav means wav"),
        ("mp3", {"bit_depth": "16"}, "mp3 has no such bit depth"),
        ("flac", {"bit_depth": "float"}, "one of 16, 24 was expected"),
        ("flac", {"quality": 5}, "flac loses nothing"),
        ("opus", {"sample_rate": 44100}, "opus is written at 48000 Hz"),
        ("wav", {"sample_rate": 48000}, "one of 44100, 32000 was expected"),
        ("mp3", {"quality": 11}, "a number from 0 to 10"),
        ("mp3", {"quality": "nan"}, "a number from 0 to 10"),
        ("wav", {"normalize": "loud"}, "none, peak or loudness"),
        ("wav", {"normalize": "peak=0"}, "a number from -30 to -1"),
        ("wav", {"normalize": "loudness=x"}, "(LUFS)"),
        ("wav", {"normalize": "none=3"}, "none, peak or loudness"),
        ("wav", {"track": "one"}, "such as 3 or 3/12"),
        ("wav", {"guidance": -1}, "a number from 0 to 20"),
    ],
)
def test_contradictions_are_usage_errors(ending: str, flags: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        delivery(ending, **flags)
    assert message in caught.value.message
    assert f"--{next(iter(flags))}" in caught.value.message


def test_normalization_spells_out_its_target() -> None:
    assert delivery(normalize="loudness").normalize == "loudness=-14"
    assert delivery(normalize="peak").normalization.target == -1.0  # type: ignore[union-attr]
    assert delivery(normalize="loudness=-16.0") == delivery(normalize="loudness=-16")


def test_every_format_has_a_default_that_it_can_hold() -> None:
    for name, format in FORMATS.items():
        made = delivery(format.endings[0])
        assert made.format == name and made.sample_rate in format.rates
