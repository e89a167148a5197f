"""A batch: its plan, its folder's lock, its run and its record."""
