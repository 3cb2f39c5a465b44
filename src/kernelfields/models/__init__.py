"""Fitted fields: terms, their fit, what they can be asked, and model files."""
