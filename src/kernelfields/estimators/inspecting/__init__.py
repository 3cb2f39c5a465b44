"""Fitted fields looked at: weights, explanations, summaries, pictures of sequences and graphs."""
