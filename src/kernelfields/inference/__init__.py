"""Inference on arrays of potentials: log partition, marginals, Hessian products, decoding, sampling.

Functions are imported from their modules where they are used, so that numba loads with the first of them.
"""
