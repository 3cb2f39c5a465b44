"""Segments of chains: semi-Markov inference."""
