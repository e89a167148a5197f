"""The checkpoint folder: its layout, headers, checks, loading, and the miniature one for trying things out."""
