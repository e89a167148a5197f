"""From requests to files: names, the plan, the sidecar and the run. No torch at import."""
