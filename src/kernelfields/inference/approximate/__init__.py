"""Approximate inference on graphs with circles: messages, mean field, Gibbs sampling."""
