"""Fitted fields: terms, their fit, their answers, and model files."""
