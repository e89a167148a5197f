"""The second stage: frames to sound, window by window in song order."""
