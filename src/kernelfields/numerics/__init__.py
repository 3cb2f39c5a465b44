"""Arithmetic below the mathematics: threads, vectors, triangular systems, Lanczos vectors, checked numbers."""
