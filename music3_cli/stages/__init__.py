"""How talker and acoustic stage work together: songs between them, threads, and weights that come and go."""
