"""The model's fixed numbers that a request is checked against (spec: prompt, talker)."""

FRAME_RATE = 25
"""Frames a second; one frame is 40 ms of sound."""

MAX_FRAMES = 9000
"""The longest song, six minutes."""

MAX_PROMPT_TOKENS = 5000

CONTEXT = 10_240
"""Positions of the released talker: prompt tokens + frames + 1 must fit."""

MAX_SEED = 2**64 - 1


def seconds_to_frames(seconds: float) -> int:
    """Whole frames that fit into `seconds` (a ceiling is never exceeded)."""
    # 0.28 * 25 is 7.000000000000001 and 0.29 * 100 is 28.999...: half a millionth of a frame is forgiven.
    return int(seconds * FRAME_RATE + 5e-7)


def frames_to_seconds(frames: int) -> float:
    """Nominal length of `frames`; the written file is a few milliseconds shorter (whole latents)."""
    return frames / FRAME_RATE


def clock(seconds: float) -> str:
    """`seconds` as people read a song's length, `3:05` or `1:02:05`."""
    whole = int(round(seconds))
    hours, rest = divmod(whole, 3600)
    minutes, secs = divmod(rest, 60)
    return f"{hours}:{minutes:02d}:{secs:02d}" if hours else f"{minutes}:{secs:02d}"
