"""The first stage: prompt tokens to frames, 25 a second, each 8 codes and a hidden for the acoustic stage."""
