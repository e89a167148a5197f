"""Ways of running a plan: here, in a process a device, on a Ray cluster. They give the same bytes."""
