"""Damaged files and random calls, and what counts as a good answer to them; run by tests/campaigns/fuzz.py."""
