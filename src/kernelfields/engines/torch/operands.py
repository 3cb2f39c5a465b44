"""The thin side of a product with stored features, in parts that matrix units multiply exactly.

Units of a device multiply numbers of 11 significant bits (float16, TF32) and add in float32. A feature stored with
11 bits loses nothing there; the thin operand X (m, q), coefficients or residuals, is split so that it keeps 22:

    half    X = 2^e (H + 2^-11 L)     H, L in float16, e of each column such that |H| < 2^15
    TF32    X = H + L                 H, L of float32 with 11 significant bits

H and L stand side by side, 2 q columns filled up to a multiple of 8, in one product. An entry of X is kept to
2^-22 of itself, or in float16 to 2^-49 of the largest in its column if that is more. Products are then as accurate
as float32 with respect to the features stored. Nothing here waits for the device.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch

_LOW_BITS = 11
# The largest magnitude in float16 is a little under 2^16.
_LARGEST_EXPONENT = 15
# Columns in multiples of this many are aligned as the fast kernels of the libraries ask for.
ALIGNMENT = 8


class Operand(Protocol):
    """How a thin operand is written for a product, and how the product is read."""

    def scale(self, X: torch.Tensor) -> Any:
        """Return what ``parts`` and ``combined`` need to know of all rows of X."""

    def parts(self, X: torch.Tensor, scale: Any) -> torch.Tensor:
        """Return some rows of X as they enter the product, (m, p)."""

    def combined(self, products: torch.Tensor, n_columns: int, scale: Any) -> torch.Tensor:
        """Return products (..., p) with parts as products with X, (..., q) float64."""


class WholeOperand:
    """X itself in one precision, for devices and precisions that need no parts."""

    def __init__(self, dtype: torch.dtype):
        self.dtype = dtype

    def scale(self, X: torch.Tensor) -> None:
        """Nothing is needed."""

    def parts(self, X: torch.Tensor, scale: None) -> torch.Tensor:
        """Return X rounded."""
        return X.to(self.dtype)

    def combined(self, products: torch.Tensor, n_columns: int, scale: None) -> torch.Tensor:
        """Return the products in float64."""
        return products.to(torch.float64)


class SplitTF32:
    """X = H + L with 11 significant bits each, stored in float32."""

    def scale(self, X: torch.Tensor) -> None:
        """Nothing is needed: float32 has exponents enough."""

    def parts(self, X: torch.Tensor, scale: None) -> torch.Tensor:
        """Return H and L side by side."""
        high = round_to_tf32(X.to(torch.float32))
        low = round_to_tf32((X - high).to(torch.float32))
        return _side_by_side(high, low)

    def combined(self, products: torch.Tensor, n_columns: int, scale: None) -> torch.Tensor:
        """Return H's products plus L's."""
        wide = products[..., : 2 * n_columns].to(torch.float64)
        return wide[..., :n_columns] + wide[..., n_columns:]


class SplitHalf:
    """X = 2^e (H + 2^-11 L) in float16, with e of each column."""

    def scale(self, X: torch.Tensor) -> torch.Tensor:
        """Return 2^e, (q,)."""
        return power_of_two_above(X, dim=0).mul_(2.0**-_LARGEST_EXPONENT)

    def parts(self, X: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        """Return H and L side by side."""
        scaled = X.to(torch.float64) / scale
        high = scaled.to(torch.float16)
        low = scaled.sub_(high).mul_(2.0**_LOW_BITS).to(torch.float16)
        return _side_by_side(high, low)

    def combined(self, products: torch.Tensor, n_columns: int, scale: torch.Tensor) -> torch.Tensor:
        """Return H's products plus 2^-11 times L's, times 2^e."""
        wide = products[..., : 2 * n_columns].to(torch.float64)
        return wide[..., :n_columns].add(wide[..., n_columns:], alpha=2.0**-_LOW_BITS).mul_(scale)


def _side_by_side(high: torch.Tensor, low: torch.Tensor) -> torch.Tensor:
    width = high.shape[1]
    both = high.new_zeros((high.shape[0], rounded_up(2 * width)))
    both[:, :width] = high
    both[:, width : 2 * width] = low
    return both


def rounded_up(width: int) -> int:
    """Return the next multiple of the alignment."""
    return -(-width // ALIGNMENT) * ALIGNMENT


def power_of_two_above(X: torch.Tensor, dim: int) -> torch.Tensor:
    """Return for each slice the power of two that is next above its largest magnitude, in float64; 1 for zeros."""
    if X.shape[dim] == 0:
        return torch.ones(X.shape[1 - dim], dtype=torch.float64, device=X.device)
    largest = torch.linalg.vector_norm(X, ord=float("inf"), dim=dim).to(torch.float64)
    # Within these bounds the powers and their inverses are normal numbers.
    exponents = torch.frexp(largest).exponent.clamp(-900, 900)
    return torch.ldexp(torch.ones_like(largest), exponents)


def round_to_tf32(X: torch.Tensor) -> torch.Tensor:
    """Return float32 values rounded to 11 significant bits, ties to even: their last 13 bits are zero."""
    bits = X.contiguous().view(torch.int32)
    bits = bits + 0xFFF + ((bits >> 13) & 1)
    return (bits & ~0x1FFF).view(torch.float32)
