"""A chain of labels as the last layer of a network: its loss is the exact negative log-likelihood.

    log p(y | x) = score(y) - log sum_{y'} exp score(y')
    score(y)     = start(y_1) + sum_t u_t(y_t) + sum_{t > 1} (transitions(y_{t-1}, y_t) + w_t(y_{t-1}, y_t)) + end(y_T)

u_t (scores) and, where given, w_t (pair scores) come from the network; transitions, start and end are parameters of the
layer. What is known of labels restricts the first of two sums over labellings:

    loss = log sum_{y'} exp score(y') - log sum_{y' that fits what is known} exp score(y')

Sums are those of likelihood.py: float64 whatever the type of the scores, and gradients are marginals less those given
what is known. Float32 scores give losses and gradients that are those of these numbers, rounded once to float32.

Arrays: scores (B, T, L) padded at the end, or (N, L) of sequences end to end; pair scores (B, T, L, L) or (N, L, L).
Cost: O(N L^2), one pass on the device of the scores for CUDA, by compiled code of the host elsewhere; another one where
labels are known in part. Fails: ValueError naming the sequence and position for labels that constraints forbid, for NaN
among scores, and for shapes that do not fit together.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from kernelfields.data.constraints import resolve_constraints
from kernelfields.data.reading import SEQUENCES
from kernelfields.engines.torch.family import TorchChainFamily, best_labels
from kernelfields.inference.chain.family import ChainFamily
from kernelfields.inference.packing import InfeasibleSequence, raise_if_infeasible
from kernelfields.layers.likelihood import label_scores, log_partition, to_family_device, to_potentials, workers
from kernelfields.numerics.parameters import check_count, is_whole

_REDUCTIONS = "mean", "token_mean", "sum", "none"


class ChainField(torch.nn.Module):
    """Score labellings of sequences, as the last layer of a network.

    The loss is the exact negative log-likelihood of what is known of the labels. It is computed in float64, whatever
    the type of the scores. docs/layers.md has networks with it.

    Parameters
    ----------
    labels : int or sequence
        The number of labels, or their names in the order of the scores, which ``constraints`` refer to.
    constraints : str, list, dict or Constraints, optional
        Labels and transitions that are forbidden, as :class:`~kernelfields.ChainCRF` takes them: the name of a scheme
        such as ``"bio"``, pairs of labels, or more.
    ends : bool, default True
        Whether first and last labels have scores of their own.
    device : torch.device or str, optional
        The device of the parameters.
    dtype : torch.dtype, optional
        The type of the parameters.

    Attributes
    ----------
    transitions : Parameter (L, L)
        The scores of steps from a label (row) to the next (column).
    start : Parameter (L,)
        The scores of first labels; None without ``ends``.
    end : Parameter (L,)
        The scores of last labels; None without ``ends``.

    See Also
    --------
    log_partition : The logarithm of the sum over labellings of any family.

    Examples
    --------
    >>> import torch
    >>> from kernelfields.layers import ChainField
    >>> layer = ChainField(2)
    >>> scores = torch.tensor([[[2.0, 0.0], [0.0, 1.0]]])
    >>> loss = layer(scores, torch.tensor([[0, 1]]))
    >>> loss.backward()
    >>> round(loss.item(), 2), layer.transitions.grad.numpy().round(2)
    (0.44, array([[ 0.24, -0.36],
           [ 0.03,  0.09]], dtype=float32))
    """

    def __init__(
        self, labels: Any, *, constraints: Any = None, ends: bool = True, device: Any = None, dtype: Any = None
    ):
        super().__init__()
        self.labels = _read_names(labels)
        n_labels = len(self.labels)
        self._masks = resolve_constraints(constraints, np.array(self.labels))
        self.transitions = torch.nn.Parameter(torch.zeros(n_labels, n_labels, device=device, dtype=dtype))
        for name in ("start", "end"):
            own = torch.nn.Parameter(torch.zeros(n_labels, device=device, dtype=dtype)) if ends else None
            self.register_parameter(name, own)
        barred = self._masks.label < 0
        # Arrays of the host, not buffers: a buffer that is made on the meta device holds nothing once it is emptied.
        self._forbidden = {
            "steps": (self._masks.edge < 0) | barred,
            "start": (self._masks.start < 0) | barred,
            "end": self._masks.end < 0,
        }

    @property
    def forbidden_steps(self) -> torch.Tensor:
        """Mask of forbidden transitions, (L, L) of booleans."""
        return torch.as_tensor(self._forbidden["steps"], device=self.transitions.device)

    @property
    def forbidden_start(self) -> torch.Tensor:
        """Mask of labels that may not begin a sequence, (L,)."""
        return torch.as_tensor(self._forbidden["start"], device=self.transitions.device)

    @property
    def forbidden_end(self) -> torch.Tensor:
        """Mask of labels that may not end a sequence, (L,)."""
        return torch.as_tensor(self._forbidden["end"], device=self.transitions.device)

    def reset_parameters(self) -> None:
        """Set all scores to zero, their initial value; for layers made on the meta device."""
        for own in self.parameters():
            torch.nn.init.zeros_(own)

    def forward(
        self,
        scores: torch.Tensor,
        labels: torch.Tensor,
        lengths: Any = None,
        mask: Any = None,
        *,
        pair_scores: torch.Tensor | None = None,
        reduction: str = "mean",
    ) -> torch.Tensor:
        """Compute the negative log-likelihood of labels, which may be partial.

        Parameters
        ----------
        scores : tensor (B, T, L) or (N, L)
            The scores of labels, padded at the end, or of sequences end to end.
        labels : tensor (B, T) or (N,)
            Numbers of labels, -1 if a label is not known; or sets of labels as a bool mask, shaped like the scores.
        lengths : tensor (B,), optional
            The lengths of the sequences; by default all are full.
        mask : bool tensor (B, T), optional
            The positions that belong to sequences, in place of lengths.
        pair_scores : tensor (B, T, L, L) or (N, L, L), optional
            Scores of steps into each position, which are added to ``transitions``.
        reduction : {"mean", "token_mean", "sum", "none"}, default "mean"
            Whether to return the mean over sequences or over positions, the sum, or one number for each sequence.

        Returns
        -------
        tensor () or (B,)
            The loss.

        Raises
        ------
        ValueError
            If shapes do not fit together, if a score is NaN, or if constraints forbid all labellings.

        Examples
        --------
        >>> import torch
        >>> from kernelfields.layers import ChainField
        >>> layer = ChainField(2)
        >>> scores = torch.tensor([[[2.0, 0.0], [0.0, 1.0]]])
        >>> round(layer(scores, torch.tensor([[0, -1]])).item(), 3)  # the second label is not known
        0.127
        """
        if reduction not in _REDUCTIONS:
            raise ValueError(f"reduction must be one of {', '.join(map(repr, _REDUCTIONS))}, got {reduction!r}")
        chains = _Chains(self, scores, lengths, mask, pair_scores)
        losses = chains.log_partition() - chains.log_partition(labels)
        if reduction == "none":
            reduced = losses
        elif reduction == "token_mean":
            reduced = losses.sum() / chains.family.n_positions
        else:
            reduced = losses.sum() if reduction == "sum" else losses.mean()
        return chains.restore(reduced)

    def log_partition(
        self,
        scores: torch.Tensor,
        lengths: Any = None,
        mask: Any = None,
        *,
        labels: torch.Tensor | None = None,
        pair_scores: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Compute the logarithm of the sum over all labellings, or over those consistent with ``labels``.

        Parameters
        ----------
        scores : tensor (B, T, L) or (N, L)
            The scores of labels, padded at the end, or of sequences end to end.
        lengths : tensor (B,), optional
            The lengths of the sequences; by default all are full.
        mask : bool tensor (B, T), optional
            The positions that belong to sequences, in place of lengths.
        labels : tensor (B, T) or (N,), optional
            Numbers of labels, -1 if a label is not known; or sets of labels as a bool mask, shaped like the scores. By
            default nothing is known.
        pair_scores : tensor (B, T, L, L) or (N, L, L), optional
            Scores of steps into each position, which are added to ``transitions``.

        Returns
        -------
        tensor (B,)
            The logarithm for each sequence.

        Raises
        ------
        ValueError
            If shapes do not fit together, if a score is NaN, or if constraints forbid all labellings.

        Examples
        --------
        >>> import torch
        >>> from kernelfields.layers import ChainField
        >>> layer = ChainField(2)
        >>> scores = torch.tensor([[[2.0, 0.0], [0.0, 1.0]]])
        >>> layer.log_partition(scores).detach().numpy().round(2)
        array([3.44], dtype=float32)
        """
        chains = _Chains(self, scores, lengths, mask, pair_scores)
        return chains.restore(chains.log_partition(labels))

    @torch.no_grad()
    def decode(
        self,
        scores: torch.Tensor,
        lengths: Any = None,
        mask: Any = None,
        *,
        labels: torch.Tensor | None = None,
        pair_scores: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Find the most probable labelling of each sequence.

        Parameters
        ----------
        scores : tensor (B, T, L) or (N, L)
            The scores of labels, padded at the end, or of sequences end to end.
        lengths : tensor (B,), optional
            The lengths of the sequences; by default all are full.
        mask : bool tensor (B, T), optional
            The positions that belong to sequences, in place of lengths.
        labels : tensor (B, T) or (N,), optional
            Numbers of labels, -1 if a label is not known; or sets of labels as a bool mask, shaped like the scores. By
            default nothing is known.
        pair_scores : tensor (B, T, L, L) or (N, L, L), optional
            Scores of steps into each position, which are added to ``transitions``.

        Returns
        -------
        tensor (B, T) or (N,)
            Numbers of labels, -1 at padding.

        Raises
        ------
        ValueError
            If shapes do not fit together, if a score is NaN, or if constraints forbid all labellings.

        Examples
        --------
        >>> import torch
        >>> from kernelfields.layers import ChainField
        >>> layer = ChainField(2)
        >>> scores = torch.tensor([[[2.0, 0.0], [0.0, 1.0]]])
        >>> layer.decode(scores).tolist()
        [[0, 1]]
        """
        chains = _Chains(self, scores, lengths, mask, pair_scores)
        return chains.unpack(chains.best(labels), -1)

    @torch.no_grad()
    def marginals(
        self,
        scores: torch.Tensor,
        lengths: Any = None,
        mask: Any = None,
        *,
        labels: torch.Tensor | None = None,
        pair_scores: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Compute the probability of each label at each position.

        Parameters
        ----------
        scores : tensor (B, T, L) or (N, L)
            The scores of labels, padded at the end, or of sequences end to end.
        lengths : tensor (B,), optional
            The lengths of the sequences; by default all are full.
        mask : bool tensor (B, T), optional
            The positions that belong to sequences, in place of lengths.
        labels : tensor (B, T) or (N,), optional
            Numbers of labels, -1 if a label is not known; or sets of labels as a bool mask, shaped like the scores. By
            default nothing is known.
        pair_scores : tensor (B, T, L, L) or (N, L, L), optional
            Scores of steps into each position, which are added to ``transitions``.

        Returns
        -------
        tensor (B, T, L) or (N, L)
            The probabilities, 0 at padding.

        Raises
        ------
        ValueError
            If shapes do not fit together, if a score is NaN, or if constraints forbid all labellings.

        Examples
        --------
        >>> import torch
        >>> from kernelfields.layers import ChainField
        >>> layer = ChainField(2)
        >>> scores = torch.tensor([[[2.0, 0.0], [0.0, 1.0]]])
        >>> layer.marginals(scores).numpy().round(2)
        array([[[0.88, 0.12],
                [0.27, 0.73]]], dtype=float32)
        """
        chains = _Chains(self, scores, lengths, mask, pair_scores)
        return chains.unpack(chains.restore(chains.marginals(labels)), 0)

    def extra_repr(self) -> str:
        """Return the description of the layer in the display of a network.

        Returns
        -------
        str
            The number of labels, and what differs from the defaults.
        """
        constraints = f", constraints={self._masks.scheme or 'some'!r}" if self._masks.any else ""
        return f"{len(self.labels)} labels{constraints}, ends={self.start is not None}"


class _Chains:
    """A batch of concatenated sequences with their family and the potentials of the layer."""

    def __init__(self, layer: ChainField, scores: Any, lengths: Any, mask: Any, pair_scores: torch.Tensor | None):
        self.layer, n_labels = layer, len(layer.labels)
        if not isinstance(scores, torch.Tensor) or not scores.is_floating_point():
            raise TypeError(f"scores must be a tensor of real numbers, got {getattr(scores, 'dtype', type(scores))}")
        if scores.ndim not in (2, 3) or scores.shape[-1] != n_labels or scores.numel() == 0:
            raise ValueError(
                f"scores must have shape (batch, time, {n_labels}), or (positions, {n_labels}) with lengths, "
                f"got {tuple(scores.shape)}"
            )
        if scores.ndim == 2 and lengths is None:
            raise ValueError("scores of sequences end to end, (positions, labels), need lengths")
        self._shape, self._dtype, self._device = scores.shape[:-1], scores.dtype, scores.device
        sizes = _read_lengths(self._shape, lengths, mask)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        #: Rows of padded arrays that are positions; None where all are.
        self._rows: np.ndarray | None = None
        if scores.ndim == 3 and offsets[-1] < scores.shape[0] * scores.shape[1]:
            self._rows = np.flatnonzero((np.arange(scores.shape[1]) < sizes[:, None]).reshape(-1))
        self._index = None if self._rows is None else torch.as_tensor(self._rows, device=scores.device)
        tied = pair_scores is None
        self.family = _build_family(offsets, n_labels, tied, scores.device)
        node = to_family_device(self.family, self._pack("scores", scores, (n_labels,)))
        edge = self._mask_parameter(layer.transitions, layer.forbidden_steps)[None]
        if pair_scores is not None:
            edge = edge + to_family_device(self.family, self._pack("pair_scores", pair_scores, (n_labels, n_labels)))
            edge[offsets[:-1]] = 0.0  # nothing steps into a start, whatever is there
        self._check_values({"scores": node, "transitions" if tied else "pair_scores": edge})
        for own, forbidden, rows in (
            (layer.start, layer.forbidden_start, offsets[:-1]),
            (layer.end, layer.forbidden_end, offsets[1:] - 1),
        ):
            if own is not None or layer._masks.any:
                added = self._mask_parameter(
                    forbidden.new_zeros((), dtype=node.dtype) if own is None else own, forbidden
                )
                node = node.index_add(0, torch.as_tensor(rows, device=node.device), added.expand(len(rows), -1))
        self.node, self.edge = node, edge

    def _mask_parameter(self, parameter: torch.Tensor, forbidden: torch.Tensor) -> torch.Tensor:
        """Return a parameter, or a number for all entries, with minus infinity for forbidden entries."""
        return to_family_device(self.family, torch.where(forbidden, -torch.inf, parameter))

    def _pack(self, name: str, values: torch.Tensor, row: tuple[int, ...]) -> torch.Tensor:
        """Return the rows of positions of padded or packed values, (N, *row)."""
        wanted = (*self._shape, *row)
        if tuple(values.shape) != wanted:
            raise ValueError(f"{name} must have shape {wanted}, as the scores, got {tuple(values.shape)}")
        rows = values.reshape(-1, *row)
        return rows if self._index is None else rows[self._index]

    def _check_values(self, given: dict[str, torch.Tensor]) -> None:
        """Raise ValueError if a score is NaN or plus infinity; one number is read from the device."""
        if bool((torch.stack([values.detach().amax() for values in given.values()]) < torch.inf).all()):
            return
        for name, values in given.items():
            wrong = ~(values.detach().reshape(len(values), -1) < torch.inf).all(dim=1)
            if bool(wrong.any()):
                tied = len(values) < self.family.n_positions
                where = "" if tied else f"{SEQUENCES.place(self.family.offsets, int(wrong.nonzero()[0]))}: "
                raise ValueError(f"{where}{name} must be finite or -inf, got NaN or inf; try a lower learning rate")

    def log_partition(self, labels: Any = None) -> torch.Tensor:
        """Return the logarithm of the sum over labellings consistent with the labels, (S,)."""
        if labels is None:
            return log_partition(self.family, self.node, self.edge)
        known = self._read_labels(labels)
        if known.dtype == np.bool_:
            try:
                return log_partition(self.family, self._restrict(known), self.edge)
            except InfeasibleSequence as error:
                raise self._no_labelling_error(error.sequence) from None
        scores = label_scores(self.family, known, self.node, self.edge)
        if bool(torch.isneginf(scores.detach()).any()):
            self.layer._masks.check_labels(known, self.family.offsets, np.array(self.layer.labels))
            raise self._no_labelling_error(int(torch.isneginf(scores.detach()).nonzero()[0]))
        return scores

    def marginals(self, labels: Any) -> torch.Tensor:
        member = self.family.at(self._compute_potentials(labels), None, workers())
        return torch.as_tensor(member.marginals())

    def best(self, labels: Any) -> torch.Tensor:
        potentials = self._compute_potentials(labels)
        if isinstance(self.family, TorchChainFamily):
            node, edge = potentials.arrays
            found, values = best_labels(node, edge, self.family.steps)
            raise_if_infeasible(values.cpu().numpy())
            return found
        return torch.as_tensor(self.family.labellings(potentials, workers()).best()[0])

    def _compute_potentials(self, labels: Any) -> Any:
        node = self.node if labels is None else self._restrict(self._to_sets(self._read_labels(labels)))
        return to_potentials(self.family, (node, self.edge))

    def _restrict(self, allowed: np.ndarray) -> torch.Tensor:
        """Return node potentials with minus infinity for excluded labels, (N, L)."""
        return self.node.masked_fill(torch.as_tensor(~allowed, device=self.node.device), -torch.inf)

    def _to_sets(self, known: np.ndarray) -> np.ndarray:
        """Return partial labels as a mask of possible labels, (N, L)."""
        if known.dtype == np.bool_:
            return known
        return known[:, None] == np.arange(len(self.layer.labels))

    def _read_labels(self, labels: Any) -> np.ndarray:
        """Return labels of positions: integers (N,) if all are known, else a mask of possible labels (N, L)."""
        n_labels = len(self.layer.labels)
        if not isinstance(labels, torch.Tensor) or labels.is_floating_point() or labels.is_complex():
            raise TypeError(
                "labels must be a tensor of whole numbers, -1 for unknown ones, or a bool mask of labels, "
                f"got {getattr(labels, 'dtype', type(labels))}"
            )
        is_sets = labels.dtype == torch.bool
        wanted = (*self._shape, n_labels) if is_sets else tuple(self._shape)
        if tuple(labels.shape) != wanted:
            raise ValueError(f"labels must have shape {wanted}, as the scores, got {tuple(labels.shape)}")
        values = labels.detach().cpu().numpy().reshape(-1, *wanted[len(self._shape) :])
        own = values if self._rows is None else values[self._rows]
        if is_sets:
            self._refuse(~own.any(axis=1), "no label is allowed: set all to True where a label is not known")
            return own
        self._refuse((own < -1) | (own >= n_labels), f"labels must be 0 to {n_labels - 1}, or -1 for unknown")
        own = own.astype(np.int64)
        unknown = own < 0
        return self._to_sets(own) | unknown[:, None] if unknown.any() else own

    def _refuse(self, wrong: np.ndarray, reason: str) -> None:
        if wrong.any():
            raise ValueError(f"{SEQUENCES.place(self.family.offsets, int(wrong.argmax()))}: {reason}")

    def _no_labelling_error(self, sequence: int) -> ValueError:
        return ValueError(
            f"sequence {sequence}: its labels are forbidden by the constraints, or by scores of minus infinity"
        )

    def restore(self, values: torch.Tensor) -> torch.Tensor:
        """Return results on the device and in the type of the scores; float32 for half precision."""
        dtype = self._dtype if self._dtype in (torch.float32, torch.float64) else torch.float32
        return values.to(dtype).to(self._device)

    def unpack(self, rows: torch.Tensor, padding: int) -> torch.Tensor:
        """Return rows of positions in the shape of the scores."""
        rows = rows.to(self._device)
        if self._index is None:
            return rows.reshape(*self._shape, *rows.shape[1:])
        padded = rows.new_full((int(np.prod(self._shape)), *rows.shape[1:]), padding)
        padded[self._index] = rows
        return padded.reshape(*self._shape, *rows.shape[1:])


def _build_family(offsets: np.ndarray, n_labels: int, tied: bool, device: torch.device) -> ChainFamily:
    """Return the family of chains on the device if it has compiled passes, else on the host."""
    if device.type == "cuda":
        return TorchChainFamily(offsets, n_labels, tied=tied, device=device)
    return ChainFamily(offsets, n_labels, tied=tied)


def _read_names(labels: Any) -> list:
    """Return the names of labels; numbers if their count is given."""
    if is_whole(labels):
        check_count(labels, "labels")
        return list(range(int(labels)))
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        raise TypeError(f"labels must be their number or a sequence of their names, got {labels!r}")
    names = [label.item() if isinstance(label, np.generic) else label for label in labels]
    if not names or len(set(names)) < len(names):
        raise ValueError(f"labels must be different names, at least one, got {names!r:.80}")
    return names


def _read_lengths(shape: torch.Size, lengths: Any, mask: Any) -> np.ndarray:
    """Return the length of every sequence, (S,)."""
    if lengths is not None and mask is not None:
        raise ValueError("give lengths or mask, not both")
    if mask is not None:
        inside = np.asarray(mask.cpu() if isinstance(mask, torch.Tensor) else mask).astype(bool)
        if inside.shape != tuple(shape):
            raise ValueError(f"mask must have shape {tuple(shape)}, as the scores, got {inside.shape}")
        gaps = np.flatnonzero((inside[:, 1:] & ~inside[:, :-1]).any(axis=1))
        if gaps.size:
            raise ValueError(f"sequence {gaps[0]}: mask must be True up to the end of the sequence and False after it")
        sizes = inside.sum(axis=1)
    elif lengths is None:
        return np.full(shape[0], shape[1])
    else:
        sizes = np.asarray(lengths.cpu() if isinstance(lengths, torch.Tensor) else lengths)
        if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or (len(shape) == 2 and len(sizes) != shape[0]):
            raise ValueError(
                f"lengths must be whole numbers, one for each of {shape[0] if len(shape) == 2 else 'the'} sequences, "
                f"got shape {sizes.shape} and dtype {sizes.dtype}"
            )
    empty = np.flatnonzero(sizes < 1)
    if empty.size:
        raise ValueError(f"sequence {empty[0]} is empty: leave sequences without positions out of the batch")
    if len(shape) == 2 and sizes.max(initial=0) > shape[1]:
        raise ValueError(f"lengths must not exceed the {shape[1]} positions of the scores, got {sizes.max()}")
    if len(shape) == 1 and sizes.sum() != shape[0]:
        raise ValueError(f"lengths add up to {sizes.sum()}, but the scores have {shape[0]} positions")
    return sizes.astype(np.int64)
