"""Structures of labels: chains, segments, graphs, rows with one label or several.

A structure says how items are read, which labels meet, what a field on them is made of, and what files keep of that.
"""
