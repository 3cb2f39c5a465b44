"""Exact inference on chains whose neighbours meet."""
