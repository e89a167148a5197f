"""Files: every format written, read back here and by other programs, labelled, repeated, and never half there."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from music3_cli.audio import formats
from music3_cli.audio.levels import LevelMeter
from music3_cli.audio.quantize import Quantizer, Words
from music3_cli.audio.tags import Tags
from music3_cli.audio.writer import AudioWriter, WrittenAudio
from music3_cli.errors import InputError, OutputError, SongError
from music3_cli.song.delivery import FORMATS, Delivery
from tests.support.sound import blocks, ffmpeg_decode, ffprobe, needs_ffmpeg, needs_sox, tone

RATE = 44_100
LOSSLESS = [(name, depth) for name, format in FORMATS.items() for depth in format.bit_depths]
NATIVE_LOSSY = [("mp3", None), ("ogg", None)]
STEP = {"16": 2.0**-15, "24": 2.0**-23, "float": 0.0}

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8cfc000000301010018dd8db0"
    "0000000049454e44ae426082"
)
TAGS = Tags(
    title="夜の歌 — Ünïcode 🎵",
    artist="Ärtist & Söhne",
    album="الألبوم",
    track="3/12",
    seed=str(2**64 - 1),
    model="MiniMax-Music3",
    revision="0123abcd",
    encoder="music3 0.1.0",
    comment="AI-generated with MiniMax-Music3. To repeat it:\nmusic3 render night.txt --caption 'Lied “Nacht”'",
    lyrics="[verse]\nПервая строка\n第二行\n\n[chorus]\nlast line",
    cover=PNG,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "out"
    made.mkdir()
    return made


def words() -> Words:
    return np.random.Philox(key=11).random_raw


def delivery(format: str, depth: str | None, **fields: object) -> Delivery:
    quality, dither = (8.0 if depth is None else None), (True if depth in ("16", "24") else None)
    return Delivery(**{"format": format, "bit_depth": depth, "quality": quality, "dither": dither, **fields})  # type: ignore[arg-type]


def write(
    path: Path, sound: np.ndarray, wanted: Delivery, tags: Tags | None = TAGS, size: int = 50_000
) -> WrittenAudio:
    with AudioWriter(path, RATE, wanted, words) as writer:
        for block in blocks(sound, size):
            writer.write(block)
        audio = writer.finish(tags)
        writer.commit()
    return audio


@pytest.mark.parametrize(("format", "depth"), LOSSLESS)
def test_lossless_samples_come_back(format: str, depth: str, folder: Path) -> None:
    sound, path = tone(3), folder / f"a.{format}"
    audio = write(path, sound, delivery(format, depth, dither=False))
    back, rate = soundfile.read(path, dtype="float64", always_2d=True)
    assert rate == RATE and back.shape == sound.T.shape and audio.samples == len(back)
    assert np.abs(back.T - sound).max() <= STEP[depth] / 2
    assert soundfile.info(path).subtype == {"16": "PCM_16", "24": "PCM_24", "float": "FLOAT"}[depth]
    assert audio.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@needs_ffmpeg
@pytest.mark.parametrize(("format", "depth"), [*LOSSLESS, *NATIVE_LOSSY])
def test_ffmpeg_hears_length_rate_and_level(format: str, depth: str | None, folder: Path) -> None:
    sound, path = tone(3), folder / f"a.{format}"
    write(path, sound, delivery(format, depth))
    stream = ffprobe(path)
    assert (int(stream["sample_rate"]), stream["channels"]) == (RATE, 2)
    heard = ffmpeg_decode(path, RATE)
    assert heard.shape == sound.shape
    difference = heard - sound
    if depth is not None:
        assert np.abs(difference).max() <= 1.5 * STEP[depth] + 1e-9
    else:
        assert np.sqrt((difference**2).mean()) < 0.06 * np.sqrt((sound**2).mean())


@needs_sox
@pytest.mark.parametrize(
    ("format", "depth"), [("wav", "16"), ("wav", "24"), ("wav", "float"), ("flac", "24"), ("ogg", None)]
)
def test_sox_hears_length_rate_and_bits(format: str, depth: str | None, folder: Path) -> None:
    path = folder / f"a.{format}"
    write(path, tone(2), delivery(format, depth))
    asked = {
        flag: subprocess.run(["soxi", flag, path], capture_output=True, text=True, check=True)
        for flag in ("-s", "-r", "-c", "-b")
    }
    found = {flag: done.stdout.strip() for flag, done in asked.items()}
    assert (found["-s"], found["-r"], found["-c"]) == (str(2 * RATE), str(RATE), "2")
    assert depth is None or found["-b"] == {"float": "32"}.get(depth, depth)


@needs_ffmpeg
@pytest.mark.parametrize(("format", "depth"), [("wav", "16"), ("wav", "float"), ("flac", "16"), *NATIVE_LOSSY])
def test_ffprobe_reads_the_tags(format: str, depth: str | None, folder: Path) -> None:
    path = folder / f"a.{format}"
    write(path, tone(1), delivery(format, depth))
    stream = ffprobe(path)
    tags = stream["tags"]
    assert tags["title"] == TAGS.title and tags["artist"] == TAGS.artist and tags["album"] == TAGS.album
    assert tags["track"] in ("3/12", "3") and tags["seed"] == TAGS.seed
    assert (tags["model"], tags["model_revision"]) == (TAGS.model, TAGS.revision)
    assert tags["ai_generated"] == "AI-generated (MiniMax-Music3)"
    assert tags["comment"] == TAGS.comment
    assert next(value for name, value in tags.items() if name.startswith("lyrics")) == TAGS.lyrics
    assert stream["pictures"] == 1


def test_tags_of_a_wav_hold_the_cover(folder: Path) -> None:
    from mutagen.wave import WAVE

    write(folder / "a.wav", tone(1), delivery("wav", "16"))
    assert WAVE(folder / "a.wav").tags.getall("APIC")[0].data == PNG


def test_empty_tags_are_left_out_and_control_characters_too(folder: Path) -> None:
    from mutagen.flac import FLAC

    write(
        folder / "a.flac",
        tone(1),
        delivery("flac", "16"),
        Tags(title="two\nlines\x00 and\ta tab", comment="a\x00b\nc"),
    )
    found = {name.upper(): value for name, value in FLAC(folder / "a.flac").tags}
    assert found == {"TITLE": "two lines and a tab", "COMMENT": "ab\nc", "AI_GENERATED": "AI-generated"}


def test_an_unknown_cover_is_refused_and_nothing_is_left(folder: Path) -> None:
    with pytest.raises(InputError, match="neither JPEG nor PNG"):
        write(folder / "a.flac", tone(1), delivery("flac", "16"), Tags(cover=b"GIF89a"))
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(("format", "depth"), [*LOSSLESS, *NATIVE_LOSSY])
@pytest.mark.parametrize("normalize", ["none", "loudness=-14"])
def test_bytes_repeat_and_do_not_depend_on_blocks(format: str, depth: str | None, normalize: str, folder: Path) -> None:
    wanted = delivery(format, depth, normalize=normalize)
    first = write(folder / f"a.{format}", tone(3), wanted, size=50_000)
    second = write(folder / f"b.{format}", tone(3), wanted, size=12_345)
    if format == "ogg":  # the encoder packs its pages by what it is given at once
        second = write(folder / f"b.{format}", tone(3), wanted, size=50_000)
    assert first.sha256 == second.sha256


@pytest.mark.parametrize(("format", "depth"), [("wav", "16"), ("flac", "24"), ("wav", "float"), *NATIVE_LOSSY])
@pytest.mark.parametrize("normalize", ["peak=-1", "loudness=-14", "loudness=-5"])
def test_normalized_files_are_at_their_level_under_the_ceiling(
    format: str, depth: str | None, normalize: str, folder: Path
) -> None:
    path = folder / f"a.{format}"
    audio = write(path, tone(4, level=0.2), delivery(format, depth, normalize=normalize))
    meter = LevelMeter(RATE)
    meter.push(soundfile.read(path, dtype="float32")[0].T)
    levels = meter.finish()
    assert levels.true_peak_db <= -1 + 1e-3
    said = audio.to_json()
    assert levels.loudness == pytest.approx(said["integrated_lufs"], abs=0.1)
    if normalize == "loudness=-14":
        assert levels.loudness == pytest.approx(-14, abs=0.1)
    if normalize == "peak=-1":
        assert levels.true_peak_db == pytest.approx(-1, abs=0.5 if depth is None else 0.02)
    assert ("needs" in str(audio.warnings())) == (normalize == "loudness=-5")
    assert [entry.name for entry in folder.iterdir()] == [path.name]


def test_dither_is_triangular_repeats_and_can_be_left_out() -> None:
    value = np.full((2, 100_000), 0.3 * 2.0**-15, np.float32)
    steps = Quantizer(16, words())(value)
    assert np.array_equal(steps, Quantizer(16, words())(value))
    assert set(np.unique(steps)) == {-1, 0, 1}
    assert steps.mean() == pytest.approx(0.3, abs=0.01)  # the mean of what is far under a step survives
    error = steps - 0.3
    assert error.var() == pytest.approx(
        0.25, abs=0.01
    )  # 1/6 of the dither and 1/12 of the rounding, whatever the value
    assert np.array_equal(Quantizer(16, None)(value), np.zeros((100_000, 2), np.int16))


def test_quantizer_keeps_full_scale_and_limits_what_is_over() -> None:
    sound = np.array([[1.0, -1.0, 2.0, -2.0, 0.5]], np.float32)
    assert Quantizer(16, None)(sound).ravel().tolist() == [32767, -32768, 32767, -32768, 16384]
    assert (Quantizer(24, None)(sound).ravel() >> 8).tolist() == [2**23 - 1, -(2**23), 2**23 - 1, -(2**23), 2**22]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_not_finite_sound_is_an_error_with_its_place(value: float, folder: Path) -> None:
    sound = tone(2)
    sound[1, RATE] = value
    with pytest.raises(SongError, match=r"not finite at 1\.00 s"):
        write(folder / "a.wav", sound, delivery("wav", "16"))
    assert list(folder.iterdir()) == []


def test_clipped_sound_is_reported(folder: Path) -> None:
    audio = write(folder / "a.wav", (tone(2) * 5).clip(-1, 1), delivery("wav", "16"))
    assert audio.faults.clipped_runs and any(text.startswith("clipping") for text in audio.warnings())
    assert audio.limited == 0


def test_sound_over_full_scale_is_counted_when_cut_and_kept_in_float(folder: Path) -> None:
    sound = tone(2)
    sound[0, 1000:1010] = 1.25
    audio = write(folder / "a.wav", sound, delivery("wav", "16"))
    assert audio.limited == 10 and any("10 samples" in text for text in audio.warnings())
    audio = write(folder / "b.wav", sound, delivery("wav", "float"))
    assert audio.limited == 0 and soundfile.read(folder / "b.wav")[0].max() == 1.25
    assert any("true peak is +" in text for text in audio.warnings())


@pytest.mark.parametrize("normalize", ["none", "peak=-1"])
def test_a_wav_over_4_gb_is_refused(normalize: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "WAV_LIMIT_BYTES", 100_000)
    with pytest.raises(OutputError, match=r"a\.wav: more than 4 GB.*WAV") as caught:
        write(folder / "a.wav", tone(1), delivery("wav", "16", normalize=normalize))
    assert "flac" in caught.value.hint
    assert list(folder.iterdir()) == []
    write(folder / "a.flac", tone(1), delivery("flac", "16"))


def flip_last_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5000])


@pytest.mark.parametrize("damage", [flip_last_byte, cut_short])
@pytest.mark.parametrize("depth", ["16", "24", "float"])
def test_what_does_not_come_back_from_disk_is_an_error(
    damage: Callable[[Path], None], depth: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = formats.Encoder.check

    def check_damaged(encoder: formats.Encoder) -> None:
        damage(encoder.path)
        check(encoder)

    monkeypatch.setattr(formats.Encoder, "check", check_damaged)
    with pytest.raises(OutputError, match="a.wav: "):
        write(folder / "a.wav", tone(1), delivery("wav", depth), tags=None)
    assert list(folder.iterdir()) == []


def test_nothing_is_left_without_commit(folder: Path) -> None:
    for normalize in ("none", "peak=-1"):
        with AudioWriter(folder / "a.wav", RATE, delivery("wav", "16", normalize=normalize), words) as writer:
            writer.write(tone(1))
            assert {entry.name[:8] for entry in folder.iterdir()} == {".music3-"}
        assert list(folder.iterdir()) == []


def test_a_folder_that_takes_nothing_is_an_output_error(folder: Path) -> None:
    (folder / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        AudioWriter(folder / "file" / "a.wav", RATE, delivery("wav", "16"), words)
