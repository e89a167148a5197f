"""music3: a batch song renderer for the open-weights model MiniMax-Music3."""

__version__ = "0.1.0"

AUDIO_REVISION = 3
"""Raised when a change of the code changes the samples of a song; part of every song's key."""
