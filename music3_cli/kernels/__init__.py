"""The talker's small operations, as plain torch functions that define their rounding."""
