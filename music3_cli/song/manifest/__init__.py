"""Manifests of batches: reading them with the places of everything, their fields, and what they expand to."""
