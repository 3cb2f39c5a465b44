"""Exact inference by a table of all labellings of a few yes-or-no labels."""
