"""Uncertainty of a fitted field: Laplace approximation of its posterior, and the evidence."""
