"""The posterior around a fit: its Laplace approximation, and the evidence of parameters."""
