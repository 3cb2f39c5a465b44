"""The positions of padded scores that belong to sequences, from lengths or masks with gaps.

    selected (B, T)     True for positions of a sequence; all others are removed
    rows (N,)           selected positions among all B T, one sequence after another
    offsets (S + 1,)    the first row of each nonempty sequence

Labels equal to ``ignore_index`` exclude positions as a mask does. A sequence without remaining labels has loss zero; a
sequence without unmasked positions is an error. Raises ValueError naming the sequence.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from kernelfields.data.reading import SEQUENCES


class Positions:
    """The positions of a padded batch that belong to sequences, on the host.

    Parameters
    ----------
    shape : tuple
        The shape of the scores without labels: (B, T), or (N,) for sequences end to end.
    selected : array (B, T) of bool, optional
        The positions of padded scores; None if all belong to sequences.
    lengths : array (S,), optional
        The lengths of sequences end to end.
    """

    def __init__(self, shape: tuple[int, ...], selected: np.ndarray | None, lengths: np.ndarray | None = None):
        self.shape = shape
        if len(shape) == 1:
            assert lengths is not None
            sizes, chosen = lengths, selected
            if chosen is not None:
                owners = np.repeat(np.arange(len(lengths)), lengths)
                sizes = np.bincount(owners[chosen], minlength=len(lengths))
        else:
            sizes = np.full(shape[0], shape[1]) if selected is None else selected.sum(axis=1)
        #: The number of sequences, empty ones included.
        self.n_sequences = len(sizes)
        #: Rows of flat arrays that are positions; None if all are.
        self.rows = None if selected is None or selected.all() else np.flatnonzero(selected.reshape(-1))
        #: The numbers of sequences that have positions; None if all have.
        self.nonempty = None if (sizes > 0).all() else np.flatnonzero(sizes)
        own = sizes if self.nonempty is None else sizes[self.nonempty]
        self.offsets = np.concatenate([[0], np.cumsum(own)]).astype(np.int64)

    @property
    def n_positions(self) -> int:
        """The number of positions."""
        return int(self.offsets[-1])

    def sequence(self, index: int) -> int:
        """Return the index among all sequences of a nonempty sequence."""
        return index if self.nonempty is None else int(self.nonempty[index])

    def place(self, row: int) -> str:
        """Return the place of a packed row for messages."""
        if len(self.shape) == 1:
            return SEQUENCES.place(self.offsets, row)
        flat = row if self.rows is None else int(self.rows[row])
        sequence, position = divmod(flat, self.shape[1])
        return f"{SEQUENCES.name(sequence)}, {SEQUENCES.part} {position}"

    def pack(self, values: Any, n_axes: int) -> Any:
        """Select the rows of positions of an array or tensor with ``n_axes`` axes behind those of positions."""
        rows = values.reshape(-1, *values.shape[values.ndim - n_axes :])
        if self.rows is None:
            return rows
        return rows[torch.as_tensor(self.rows, device=rows.device) if isinstance(rows, torch.Tensor) else self.rows]

    def unpack(self, rows: torch.Tensor, padding: float) -> torch.Tensor:
        """Return rows of positions in the padded shape of the scores."""
        if self.rows is not None:
            padded = rows.new_full((int(np.prod(self.shape)), *rows.shape[1:]), padding)
            padded[torch.as_tensor(self.rows, device=rows.device)] = rows
            rows = padded
        return rows.reshape(*self.shape, *rows.shape[1:])

    def reduce(self, losses: torch.Tensor, reduction: str) -> torch.Tensor:
        """Return losses (S,), their sum, or their mean over nonempty sequences or over positions."""
        if reduction == "none":
            return losses
        total = losses.sum()
        if reduction == "sum":
            return total
        return total / max(1, self.n_positions if reduction == "token_mean" else len(self.offsets) - 1)

    def lists(self, values: Iterable[list]) -> list[list]:
        """Insert empty lists for empty sequences."""
        found: list[list] = [[] for _ in range(self.n_sequences)]
        for index, own in enumerate(values):
            found[self.sequence(index)] = own
        return found

    def by_sequence(self, values: torch.Tensor) -> torch.Tensor:
        """Expand values of nonempty sequences to all sequences, with zeros."""
        if self.nonempty is None:
            return values
        index = torch.as_tensor(self.nonempty, device=values.device)
        return values.new_zeros(self.n_sequences).index_add(0, index, values)


def read_positions(
    shape: tuple[int, ...], lengths: Any, mask: Any, labels: torch.Tensor | None, ignore_index: int | None
) -> Positions:
    """Return the positions selected by lengths or a mask and not ignored by labels."""
    sizes, selected = None, None
    if mask is not None:
        selected = _read_mask(shape, lengths, mask)
    elif lengths is not None:
        sizes = check_lengths(shape, lengths)
        if len(shape) == 2 and (sizes < shape[1]).any():
            selected = np.arange(shape[1]) < sizes[:, None]
    if labels is not None and ignore_index is not None and labels.dtype != torch.bool and labels.shape == shape:
        kept = (labels != ignore_index).cpu().numpy()
        if not kept.all():
            selected = kept if selected is None else selected & kept
    return Positions(shape, selected, sizes)


def check_mask_form(shape: tuple[int, ...], lengths: Any, mask: Any) -> None:
    """Raise unless a mask has the shape of padded scores and a boolean or integer type."""
    if lengths is not None:
        raise ValueError("give lengths or mask, not both")
    given = mask if isinstance(mask, torch.Tensor) else torch.as_tensor(mask)
    if given.is_floating_point() or given.is_complex():
        raise TypeError(f"mask must be of booleans, or of zeros and ones, got {given.dtype}")
    if len(shape) == 1 or tuple(given.shape) != tuple(shape):
        raise ValueError(f"mask must have shape {tuple(shape)}, as padded scores, got {tuple(given.shape)}")


def _read_mask(shape: tuple[int, ...], lengths: Any, mask: Any) -> np.ndarray:
    check_mask_form(shape, lengths, mask)
    selected = np.asarray(mask.cpu() if isinstance(mask, torch.Tensor) else mask).astype(bool)
    _refuse_empty(np.flatnonzero(~selected.any(axis=1)), "its mask is False everywhere")
    return selected


def check_lengths(shape: tuple[int, ...], lengths: Any) -> np.ndarray:
    """Return checked lengths (S,)."""
    sizes = np.asarray(lengths.cpu() if isinstance(lengths, torch.Tensor) else lengths)
    if sizes.shape == tuple(shape) and len(shape) == 2:
        raise ValueError(f"lengths must be one number for each sequence, got shape {sizes.shape}: write mask=")
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or (len(shape) == 2 and len(sizes) != shape[0]):
        raise ValueError(
            f"lengths must be whole numbers, one for each of {shape[0] if len(shape) == 2 else 'the'} sequences, "
            f"got shape {sizes.shape} and dtype {sizes.dtype}"
        )
    _refuse_empty(np.flatnonzero(sizes < 1), "its length is 0")
    if len(shape) == 2 and sizes.max(initial=0) > shape[1]:
        raise ValueError(f"lengths must not exceed the {shape[1]} positions of the scores, got {sizes.max()}")
    if len(shape) == 1 and sizes.sum() != shape[0]:
        raise ValueError(f"lengths add up to {sizes.sum()}, but the scores have {shape[0]} positions")
    return sizes.astype(np.int64)


def _refuse_empty(empty: np.ndarray, reason: str) -> None:
    if empty.size:
        raise ValueError(f"sequence {empty[0]} is empty ({reason}): leave sequences without positions out of the batch")
