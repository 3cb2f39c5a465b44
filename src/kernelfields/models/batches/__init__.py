"""Fits that go on with batches of new sequences, after the posterior of those before."""
