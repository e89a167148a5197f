"""What a song is: text, caption, prompt, settings and the request they make. No torch, no checkpoint."""
