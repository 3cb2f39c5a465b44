"""Densities on boxes: exponential families with integrals in the place of sums."""
