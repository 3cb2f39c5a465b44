"""Segments of labels as the last layer of a network: a semi-Markov chain, whose loss is the exact one.

    score = sum over segments (b, e, y) of  sum_{b <= t < e} u_t(y) + duration(e - b, y)
            + sum over neighbouring segments  transitions(y, y')  +  start(y_1) + end(y_K)

u_t come from the network; transitions, durations, start and end are parameters of the layer. Neighbouring segments have
different labels, unless ``touching``. The loss is the difference of two sums over segmentations,

    loss = log sum_s exp score(s) - log sum_{s consistent with the labels} exp score(s) >= 0,

computed in float64 by the passes of inference/segments on the host, for scores of any type; gradients are marginals.

Arrays: scores (B, T, L) or (N, L), durations (D, L). Cost: O(N L (L + D)) at most. Raises ValueError naming sequence
and position for labels out of range, segments that are too long, and NaN among scores.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import torch

from kernelfields.data.constraints import resolve_constraints
from kernelfields.data.segments import Segment, Segmentation, find_begins, segment_bounds
from kernelfields.inference.segments.family import SegmentFamily, SegmentMember
from kernelfields.layers.label_options import read_ignored, read_names
from kernelfields.layers.likelihood import label_scores, log_partition, to_family_device, to_potentials, workers
from kernelfields.layers.packed_chains import (
    REDUCTIONS,
    check_labels,
    check_mask,
    check_scores,
    check_values,
    read_labels,
    result_type,
    to_sets,
)
from kernelfields.layers.positions import read_positions
from kernelfields.numerics.parameters import check_choice, check_count


class SegmentField(torch.nn.Module):
    """Score segmentations of sequences, as the last layer of a network.

    Parameters
    ----------
    labels : int or sequence
        The number of labels, or their names in the order of the scores.
    max_duration : int
        The positions of the longest segment.
    touching : bool, default False
        Whether neighbouring segments may have the same label; labels alone do not say then where segments begin.
    constraints : str, list, dict or Constraints, optional
        Steps between segments, and labels, that are forbidden, as :class:`~kernelfields.layers.ChainField` takes them.
    ignore_index : int or None, default -100
        The label that leaves a position out of its sequence, as False in a mask does.
    device : torch.device or str, optional
        The device of the parameters.
    dtype : torch.dtype, optional
        The type of the parameters.

    Attributes
    ----------
    transitions : Parameter (L, L)
        The scores of steps from the label of a segment (row) to that of the next (column).
    durations : Parameter (D, L)
        The scores of segments of 1 to D positions.
    start : Parameter (L,)
        The scores of labels of first segments.
    end : Parameter (L,)
        The scores of labels of last segments.

    See Also
    --------
    ChainField : A layer whose labels depend on their neighbours alone.

    References
    ----------
    Sarawagi and Cohen (2004), Semi-Markov conditional random fields for information extraction.

    Examples
    --------
    >>> import torch
    >>> from kernelfields.layers import SegmentField
    >>> layer = SegmentField(["calm", "storm"], max_duration=3)
    >>> scores = torch.tensor([[[1.0, 0.0], [1.0, 0.0], [0.0, 2.0], [0.0, 2.0]]])
    >>> loss = layer.loss(scores, torch.tensor([[0, 0, 1, 1]]))
    >>> loss.backward()
    >>> round(loss.item(), 2), layer.durations.grad.shape
    (0.81, torch.Size([3, 2]))
    """

    def __init__(
        self,
        labels: Any,
        max_duration: int,
        *,
        touching: bool = False,
        constraints: Any = None,
        ignore_index: int | None = -100,
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__()
        self.labels, self.touching = read_names(labels), touching
        check_count(max_duration, "max_duration")
        self.max_duration, n_labels = int(max_duration), len(self.labels)
        self.ignore_index = read_ignored(ignore_index, n_labels)
        masks = resolve_constraints(constraints, np.array(self.labels))
        steps = masks.edge + masks.label
        self._forbidden = {
            "transitions": steps if touching else np.where(np.eye(n_labels, dtype=bool), -np.inf, steps),
            "start": masks.start + masks.label,
            "end": masks.end,
        }
        shapes = {
            "transitions": (n_labels, n_labels),
            "durations": (self.max_duration, n_labels),
            "start": (n_labels,),
            "end": (n_labels,),
        }
        for name, shape in shapes.items():
            self.register_parameter(name, torch.nn.Parameter(torch.zeros(shape, device=device, dtype=dtype)))

    def reset_parameters(self) -> None:
        """Set all scores to zero, their initial value; for layers made on the meta device."""
        for own in self.parameters():
            torch.nn.init.zeros_(own)

    def forward(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise an error, as a call could mean the loss or the log-likelihood.

        Parameters
        ----------
        *args : tensors
            Those of :meth:`loss`.
        **kwargs : options
            Those of :meth:`loss`.

        Raises
        ------
        TypeError
            Always: call :meth:`loss` or :meth:`log_likelihood`.
        """
        raise TypeError(
            "a call of a SegmentField could mean either sign: write layer.loss(scores, labels), which is minimised, or "
            "layer.log_likelihood(scores, labels)"
        )

    def loss(
        self,
        scores: torch.Tensor,
        labels: torch.Tensor,
        lengths: Any = None,
        mask: Any = None,
        *,
        begins: torch.Tensor | None = None,
        reduction: str = "mean",
    ) -> torch.Tensor:
        """Compute the negative log-likelihood of labels, whose runs are the segments.

        Parameters
        ----------
        scores : tensor (B, T, L) or (N, L)
            The scores of labels, padded, or of sequences end to end.
        labels : tensor (B, T) or (N,)
            Numbers of labels, -1 if a label is not known, ``ignore_index`` to leave a position out; or sets of labels
            as a bool mask, shaped like the scores.
        lengths : tensor (B,), optional
            The lengths of the sequences; by default all are full.
        mask : bool tensor (B, T), optional
            The positions that belong to sequences, in place of lengths; it may have gaps.
        begins : bool tensor (B, T) or (N,), optional
            Where segments begin; needed with ``touching`` alone.
        reduction : {"mean", "token_mean", "sum", "none"}, default "mean"
            Whether to return the mean over sequences or over positions, the sum, or one number for each sequence.

        Returns
        -------
        tensor () or (B,)
            The loss, at least zero.

        Raises
        ------
        ValueError
            If shapes do not fit together, if a score is NaN, or if a segment is longer than ``max_duration``.

        Examples
        --------
        >>> import torch
        >>> from kernelfields.layers import SegmentField
        >>> layer = SegmentField(2, max_duration=2, touching=True)
        >>> labels, begins = torch.tensor([[0, 0, 0]]), torch.tensor([[True, False, True]])
        >>> loss = layer.loss(torch.zeros(1, 3, 2), labels, begins=begins)
        >>> round(loss.exp().item())  # of 16 segmentations, all alike
        16
        """
        check_choice(reduction, "reduction", REDUCTIONS)
        batch = _SegmentBatch(self, scores, lengths, mask, labels)
        # The difference of two sums that are nearly equal may be below zero by their rounding.
        losses = (batch.log_partition() - batch.known_log_partition(begins)).clamp_min(0.0)
        return batch.restore(batch.positions.reduce(losses, reduction))

    def log_likelihood(
        self,
        scores: torch.Tensor,
        labels: torch.Tensor,
        lengths: Any = None,
        mask: Any = None,
        *,
        begins: torch.Tensor | None = None,
        reduction: str = "none",
    ) -> torch.Tensor:
        """Compute the log-likelihood of labels: minus :meth:`loss`.

        Parameters
        ----------
        scores : tensor (B, T, L) or (N, L)
            The scores of labels, padded, or of sequences end to end.
        labels : tensor (B, T) or (N,)
            Numbers of labels, -1 if a label is not known, ``ignore_index`` to leave a position out; or sets of labels
            as a bool mask, shaped like the scores.
        lengths : tensor (B,), optional
            The lengths of the sequences; by default all are full.
        mask : bool tensor (B, T), optional
            The positions that belong to sequences, in place of lengths; it may have gaps.
        begins : bool tensor (B, T) or (N,), optional
            Where segments begin; needed with ``touching`` alone.
        reduction : {"none", "mean", "token_mean", "sum"}, default "none"
            One number for each sequence, or those of :meth:`loss`.

        Returns
        -------
        tensor (B,) or ()
            The log-likelihood, at most zero.

        Examples
        --------
        >>> import torch
        >>> from kernelfields.layers import SegmentField
        >>> layer = SegmentField(2, max_duration=3)
        >>> layer.log_likelihood(torch.zeros(1, 3, 2), torch.tensor([[0, 0, 1]])).exp().detach().numpy().round(3)
        array([0.125], dtype=float32)
        """
        return -self.loss(scores, labels, lengths, mask, begins=begins, reduction=reduction)

    def log_partition(self, scores: torch.Tensor, lengths: Any = None, mask: Any = None) -> torch.Tensor:
        """Compute the logarithm of the sum over all segmentations.

        Parameters
        ----------
        scores : tensor (B, T, L) or (N, L)
            The scores of labels, padded, or of sequences end to end.
        lengths : tensor (B,), optional
            The lengths of the sequences; by default all are full.
        mask : bool tensor (B, T), optional
            The positions that belong to sequences, in place of lengths; it may have gaps.

        Returns
        -------
        tensor (B,)
            The logarithm for each sequence.

        Examples
        --------
        >>> import torch
        >>> from kernelfields.layers import SegmentField
        >>> SegmentField(2, max_duration=3).log_partition(torch.zeros(1, 3, 2)).exp().round().item()
        8.0
        """
        batch = _SegmentBatch(self, scores, lengths, mask)
        return batch.restore(batch.log_partition())

    @torch.no_grad()
    def decode(self, scores: torch.Tensor, lengths: Any = None, mask: Any = None) -> torch.Tensor:
        """Find the labels of the most probable segmentation of each sequence.

        Parameters
        ----------
        scores : tensor (B, T, L) or (N, L)
            The scores of labels, padded, or of sequences end to end.
        lengths : tensor (B,), optional
            The lengths of the sequences; by default all are full.
        mask : bool tensor (B, T), optional
            The positions that belong to sequences, in place of lengths; it may have gaps.

        Returns
        -------
        tensor (B, T) or (N,)
            Numbers of labels, -1 at positions that belong to no sequence.

        Examples
        --------
        >>> import torch
        >>> from kernelfields.layers import SegmentField
        >>> scores = torch.tensor([[[1.0, 0.0], [0.0, 0.5], [1.0, 0.0]]])
        >>> layer = SegmentField(2, max_duration=3)
        >>> _ = torch.nn.init.constant_(layer.transitions, -2.0)  # few segments
        >>> layer.decode(scores).tolist()
        [[0, 0, 0]]
        """
        batch = _SegmentBatch(self, scores, lengths, mask)
        return batch.positions.unpack(torch.as_tensor(batch.best()[0]).to(scores.device), -1)

    @torch.no_grad()
    def marginals(self, scores: torch.Tensor, lengths: Any = None, mask: Any = None) -> torch.Tensor:
        """Compute the probability of each label at each position.

        Parameters
        ----------
        scores : tensor (B, T, L) or (N, L)
            The scores of labels, padded, or of sequences end to end.
        lengths : tensor (B,), optional
            The lengths of the sequences; by default all are full.
        mask : bool tensor (B, T), optional
            The positions that belong to sequences, in place of lengths; it may have gaps.

        Returns
        -------
        tensor (B, T, L) or (N, L)
            The probabilities, 0 at positions that belong to no sequence.

        Examples
        --------
        >>> import torch
        >>> from kernelfields.layers import SegmentField
        >>> SegmentField(2, max_duration=3).marginals(torch.zeros(1, 2, 2)).tolist()
        [[[0.5, 0.5], [0.5, 0.5]]]
        """
        batch = _SegmentBatch(self, scores, lengths, mask)
        return batch.positions.unpack(batch.restore(torch.as_tensor(batch.member().marginals())), 0)

    @torch.no_grad()
    def segments(self, scores: torch.Tensor, lengths: Any = None, mask: Any = None) -> list[list[Segment]]:
        """Return the segments of the most probable segmentation of each sequence, with their probabilities.

        Parameters
        ----------
        scores : tensor (B, T, L) or (N, L)
            The scores of labels, padded, or of sequences end to end.
        lengths : tensor (B,), optional
            The lengths of the sequences; by default all are full.
        mask : bool tensor (B, T), optional
            The positions that belong to sequences, in place of lengths; it may have gaps.

        Returns
        -------
        list of lists of Segment
            For each sequence begin, end (exclusive), name of the label and probability of its segments: that there is
            a segment with these ends and this label. Positions are counted without gaps.

        Examples
        --------
        >>> import torch
        >>> from kernelfields.layers import SegmentField
        >>> layer = SegmentField(["calm", "storm"], max_duration=3)
        >>> scores = torch.tensor([[[2.0, 0.0], [2.0, 0.0], [0.0, 3.0]]])
        >>> [(*each[:3], round(each.probability, 2)) for each in layer.segments(scores)[0]]
        [(0, 2, 'calm', 0.74), (2, 3, 'storm', 0.84)]
        """
        batch = _SegmentBatch(self, scores, lengths, mask)
        if not batch.positions.n_positions:
            return batch.positions.lists([])
        labels, begins = batch.best()
        first, ends = segment_bounds(begins)
        chances = np.exp(batch.member().segment_log_probabilities(first, ends, labels[first]))
        offsets = batch.positions.offsets
        cuts, found = np.searchsorted(first, offsets), []
        for begin, end, offset in zip(cuts[:-1], cuts[1:], offsets[:-1], strict=True):
            own = slice(begin, end)
            rows = zip(first[own] - offset, ends[own] - offset, labels[first[own]], chances[own], strict=True)
            found.append([Segment(int(a), int(b), self.labels[label], float(chance)) for a, b, label, chance in rows])
        return batch.positions.lists(found)

    def mask_parameter(self, name: str) -> torch.Tensor:
        """Return a parameter in float64 on the host, with minus infinity for forbidden entries.

        Parameters
        ----------
        name : {"transitions", "start", "end", "durations"}
            The name of the parameter.

        Returns
        -------
        tensor
            The scores.
        """
        own = getattr(self, name).cpu().double()
        return own if name == "durations" else own + torch.as_tensor(self._forbidden[name])

    def extra_repr(self) -> str:
        """Return the description of the layer in the display of a network.

        Returns
        -------
        str
            The number of labels, and the longest segment.
        """
        touching = ", touching=True" if self.touching else ""
        return f"{len(self.labels)} labels, max_duration={self.max_duration}{touching}"


class _SegmentBatch:
    """A batch of concatenated sequences with their family and potentials."""

    def __init__(self, layer: SegmentField, scores: Any, lengths: Any, mask: Any, labels: Any = None):
        self.layer, self.n_labels = layer, len(layer.labels)
        check_scores(scores, self.n_labels, layer.transitions)
        if scores.ndim == 2 and lengths is None:
            raise ValueError("scores of sequences end to end, (positions, labels), need lengths")
        check_labels(labels, scores, self.n_labels)
        check_mask(mask, scores)
        self._dtype, self._device = scores.dtype, scores.device
        self.positions = read_positions(scores.shape[:-1], lengths, mask, labels, layer.ignore_index)
        offsets = self.positions.offsets
        self.family = SegmentFamily(offsets, self.n_labels, layer.max_duration)
        node = to_family_device(self.family, self.positions.pack(scores, 1))
        parts = {name: layer.mask_parameter(name) for name in ("transitions", "durations", "start", "end")}
        check_values({"scores": node}, self.positions)
        check_values({name: own[None] for name, own in parts.items()}, self.positions)
        for name, rows in (("start", offsets[:-1]), ("end", offsets[1:] - 1)):
            node = node.index_add(0, torch.as_tensor(rows), parts[name].expand(len(rows), -1))
        self.node, self.edge, self.duration = node, parts["transitions"][None], parts["durations"]
        ignored = layer.ignore_index
        self.known = None if labels is None else read_labels(labels, self.positions, self.n_labels, ignored)

    def log_partition(self) -> torch.Tensor:
        """Compute the log sum over segmentations of each sequence, (S,), 0 for empty sequences."""
        return self._sum(self.node)

    def _sum(self, node: torch.Tensor) -> torch.Tensor:
        own = log_partition(self.family, node, self.edge, self.duration) if len(node) else node.sum(dim=1)
        return self.positions.by_sequence(own)

    def known_log_partition(self, begins: torch.Tensor | None) -> torch.Tensor:
        """Compute the log sum over segmentations consistent with the labels, (S,)."""
        known = self.known
        assert known is not None
        if self.layer.touching != (begins is not None):
            needed = "needs begins, where segments begin" if self.layer.touching else "reads segments from labels alone"
            raise ValueError(f"a layer with touching={self.layer.touching} {needed}")
        if not self.positions.n_positions:
            return self.log_partition()
        if known.dtype == np.bool_:
            if begins is not None:
                raise ValueError("where segments begin is given: all labels have to be known")
            allowed = torch.as_tensor(~to_sets(known, self.n_labels))
            return self._sum(self.node.masked_fill(allowed, -torch.inf))
        segmentation = Segmentation(known, self._read_begins(known, begins))
        scores = label_scores(self.family, segmentation, self.node, self.edge, self.duration)  # type: ignore[arg-type]
        forbidden = torch.isneginf(scores.detach())
        if bool(forbidden.any()):
            sequence = self.positions.sequence(int(forbidden.nonzero()[0]))
            raise ValueError(f"sequence {sequence}: its segments are forbidden by constraints or scores")
        return self.positions.by_sequence(scores)

    def _read_begins(self, known: np.ndarray, begins: torch.Tensor | None) -> np.ndarray:
        """Return the mask (N,) of segment begins; ValueError for a segment with two labels or too long."""
        found = find_begins(known, self.positions.offsets)
        if begins is not None:
            if tuple(begins.shape) != tuple(self.positions.shape) or begins.dtype != torch.bool:
                raise ValueError(f"begins must be a bool tensor of shape {tuple(self.positions.shape)}")
            own = self.positions.pack(begins.cpu().numpy(), 0)
            wrong = found & ~own
            if wrong.any():
                place = self.positions.place(int(wrong.argmax()))
                raise ValueError(f"{place}: begins must be True where a sequence or another label begins")
            found = own
        first, ends = segment_bounds(found)
        longest = int((ends - first).argmax())
        if ends[longest] - first[longest] > self.layer.max_duration:
            raise ValueError(
                f"{self.positions.place(int(first[longest]))}: a segment of {ends[longest] - first[longest]} positions "
                f"is longer than max_duration={self.layer.max_duration}"
            )
        return found

    def member(self) -> SegmentMember:
        """Return the distribution of segmentations."""
        member = self.family.distribution(self._potentials(), None, workers())
        assert isinstance(member, SegmentMember)
        return member

    def best(self) -> tuple[np.ndarray, np.ndarray]:
        """Return labels (N,) of the best segmentations, and the mask (N,) of segment begins."""
        return self.family.best_segmentation(self._potentials(), workers())

    def _potentials(self) -> Any:
        return to_potentials(self.family, (self.node, self.edge, self.duration))

    def restore(self, values: torch.Tensor) -> torch.Tensor:
        """Convert results to the device and the type of the scores; float32 for half precision."""
        return values.to(result_type(self._dtype)).to(self._device)
