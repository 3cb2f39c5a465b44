"""Negative log-likelihoods as functions of potentials: chains, graphs, single labels."""
