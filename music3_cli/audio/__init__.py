"""The third stage: sound to files, and what a file is checked for."""
