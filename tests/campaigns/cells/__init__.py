"""Estimators and what is asked of them, one cell each; run by ``python -m tests.campaigns.matrix``."""
