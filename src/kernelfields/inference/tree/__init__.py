"""Exact inference on forests."""
