"""Damaged files and random calls, and what counts as a good answer to them; run by ``python -m benchmarks.fuzz``."""
