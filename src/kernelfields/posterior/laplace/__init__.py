"""The Laplace approximation of a posterior, and predictions averaged over it."""
