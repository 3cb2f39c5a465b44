"""Exact inference on graphs of small treewidth by junction trees."""
