"""Conditional random fields in reproducing kernel Hilbert spaces."""

__version__ = "0.1.0"
