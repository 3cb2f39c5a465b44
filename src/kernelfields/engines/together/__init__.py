"""Fits that several processes run together, each on its part of the data."""
