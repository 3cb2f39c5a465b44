"""The class of pytorch-crf, ``torchcrf.CRF``, with its names, signatures, errors and sign, on passes of this package.

    log p(y | x) = start(y_1) + sum_t emissions_t(y_t) + sum_{t > 1} transitions(y_{t-1}, y_t) + end(y_T) - log Z

A call returns this log-likelihood, so that training minimises minus it. Sums are those of packed_chains.py, in float64,
and gradients are marginals. Masked positions, and those with a negative tag such as -100, are
removed from a sequence, so that their neighbours become adjacent. Without gaps the values equal those of pytorch-crf;
with gaps, the two sums of pytorch-crf are over different sequences, and their difference is no log-likelihood.

Modules compiled by ``torch.jit.script`` run plain recursions in log space, which treat gaps in the same way.

Arrays: emissions (T, B, L), or (B, T, L) with ``batch_first``; tags and mask (T, B) or (B, T). Raises ValueError in the
words of pytorch-crf for shapes, and with the sequence and position for tags out of range.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from kernelfields.data.constraints import resolve_constraints
from kernelfields.layers.chain_field import ChainField
from kernelfields.layers.device_chains import read_chains
from kernelfields.layers.packed_chains import ChainRules, ChainTerms, PackedChains

__all__ = ["CRF"]

_IGNORED = -1


class CRF(torch.nn.Module):
    """Score taggings of sequences by a chain, as ``torchcrf.CRF`` does.

    Replace ``from torchcrf import CRF`` by ``from kernelfields.layers.compat import CRF``. State dicts load both ways.

    Parameters
    ----------
    num_tags : int
        The number of tags.
    batch_first : bool, default False
        Whether the first axis of tensors is the batch and not the time.

    Attributes
    ----------
    start_transitions : Parameter (L,)
        The scores of first tags.
    end_transitions : Parameter (L,)
        The scores of last tags.
    transitions : Parameter (L, L)
        The scores of steps from a tag (row) to the next (column).

    See Also
    --------
    kernelfields.layers.ChainField : A layer with constraints, marginals and entities, whose loss has the other sign.

    Examples
    --------
    >>> import torch
    >>> from kernelfields.layers.compat import CRF
    >>> crf = CRF(2, batch_first=True)
    >>> emissions = torch.tensor([[[3.0, 0.0], [0.0, 3.0], [3.0, 0.0]]])
    >>> loss = -crf(emissions, torch.tensor([[0, 1, 0]]))
    >>> loss.backward()
    >>> crf.decode(emissions)
    [[0, 1, 0]]
    """

    def __init__(self, num_tags: int, batch_first: bool = False) -> None:
        if num_tags <= 0:
            raise ValueError(f"invalid number of tags: {num_tags}")
        super().__init__()
        self.num_tags = num_tags
        self.batch_first = batch_first
        self.start_transitions = torch.nn.Parameter(torch.empty(num_tags))
        self.end_transitions = torch.nn.Parameter(torch.empty(num_tags))
        self.transitions = torch.nn.Parameter(torch.empty(num_tags, num_tags))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters uniformly between -0.1 and 0.1."""
        torch.nn.init.uniform_(self.start_transitions, -0.1, 0.1)
        torch.nn.init.uniform_(self.end_transitions, -0.1, 0.1)
        torch.nn.init.uniform_(self.transitions, -0.1, 0.1)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}(num_tags={self.num_tags})"

    def forward(
        self,
        emissions: torch.Tensor,
        tags: torch.Tensor,
        mask: torch.Tensor | None = None,
        reduction: str = "sum",
    ) -> torch.Tensor:
        """Compute the log-likelihood of tags, whose negative training minimises.

        Parameters
        ----------
        emissions : tensor (T, B, L) or (B, T, L)
            The scores of tags; the batch comes first with ``batch_first``.
        tags : tensor (T, B) or (B, T)
            The numbers of tags; those below zero, such as -100, leave a position out.
        mask : tensor (T, B) or (B, T), optional
            The positions that belong to sequences, bool or zeros and ones; by default all. The first of each sequence
            has to be on.
        reduction : {"sum", "none", "mean", "token_mean"}, default "sum"
            Whether to return the sum over sequences, one number for each, or the mean over sequences or positions.

        Returns
        -------
        tensor () or (B,)
            The log-likelihood.

        Raises
        ------
        ValueError
            If shapes do not fit together, if a tag is out of range, or if an emission is NaN.

        Examples
        --------
        >>> import torch
        >>> from kernelfields.layers.compat import CRF
        >>> crf = CRF(2)
        >>> crf.load_state_dict({name: torch.zeros_like(each) for name, each in crf.state_dict().items()})
        <All keys matched successfully>
        >>> crf(torch.zeros(3, 1, 2), torch.tensor([[0], [1], [0]])).exp().detach().numpy()  # 3 positions, one sequence
        array(0.125, dtype=float32)
        """
        self._check(emissions, tags, mask)
        if reduction not in ("none", "sum", "mean", "token_mean"):
            raise ValueError(f"invalid reduction: {reduction}")
        if not self.batch_first:
            emissions, tags = emissions.transpose(0, 1), tags.transpose(0, 1)
            if mask is not None:
                mask = mask.transpose(0, 1)
        if torch.jit.is_scripting():
            return self._plain_log_likelihood(emissions, tags, mask, reduction)
        return self._log_likelihood(emissions, tags, mask, reduction)

    @torch.jit.export
    def decode(
        self,
        emissions: torch.Tensor,
        mask: torch.Tensor | None = None,
    ) -> list[list[int]]:
        """Find the most probable tags of each sequence.

        Parameters
        ----------
        emissions : tensor (T, B, L) or (B, T, L)
            The scores of tags; the batch comes first with ``batch_first``.
        mask : tensor (T, B) or (B, T), optional
            The positions that belong to sequences, bool or zeros and ones; by default all. The first of each sequence
            has to be on.

        Returns
        -------
        list of lists of int
            The tags of the positions of each sequence that are on.

        Raises
        ------
        ValueError
            If shapes do not fit together, or if an emission is NaN.

        Examples
        --------
        >>> import torch
        >>> from kernelfields.layers.compat import CRF
        >>> emissions = torch.tensor([[[3.0, 0.0], [0.0, 3.0], [0.0, 3.0]]])
        >>> CRF(2, batch_first=True).decode(emissions, torch.tensor([[True, False, True]]))
        [[0, 1]]
        """
        self._check(emissions, None, mask)
        if not self.batch_first:
            emissions = emissions.transpose(0, 1)
            if mask is not None:
                mask = mask.transpose(0, 1)
        if torch.jit.is_scripting():
            return self._plain_decode(emissions, mask)
        return self._decode(emissions, mask)

    @torch.jit.unused
    def to_field(self, labels: Any = None, constraints: Any = None) -> ChainField:
        """Return a ChainField with these parameters, for marginals, entities, constraints and partly known labels.

        Parameters
        ----------
        labels : int or sequence, optional
            The names of the tags, in their order; numbers by default.
        constraints : str, list, dict or Constraints, optional
            What is forbidden, as :class:`~kernelfields.layers.ChainField` takes it.

        Returns
        -------
        ChainField
            A layer that shares the parameters; its tensors have the batch first.

        Examples
        --------
        >>> import torch
        >>> from kernelfields.layers.compat import CRF
        >>> field = CRF(3).to_field(["O", "B-PER", "I-PER"], constraints="bio")
        >>> field.marginals(torch.zeros(1, 2, 3))[0, 0, 2].item()  # nothing begins with I-PER
        0.0
        """
        field = ChainField(self.num_tags if labels is None else labels, constraints=constraints)
        if len(field.labels) != self.num_tags:
            raise ValueError(f"labels must be {self.num_tags} names, got {len(field.labels)}")
        field.transitions, field.start, field.end = self.transitions, self.start_transitions, self.end_transitions
        return field

    def _check(
        self,
        emissions: torch.Tensor,
        tags: torch.Tensor | None,
        mask: torch.Tensor | None,
    ) -> None:
        """Raise ValueError with the messages of pytorch-crf for shapes that do not match and masked first positions."""
        if emissions.dim() != 3:
            raise ValueError(f"emissions must have dimension of 3, got {emissions.dim()}")
        if emissions.size(2) != self.num_tags:
            raise ValueError(
                f"expected last dimension of emissions is {self.num_tags}, got {emissions.size(2)}",
            )
        for name, other in (("tags", tags), ("mask", mask)):
            if other is not None and emissions.shape[:2] != other.shape:
                raise ValueError(
                    f"the first two dimensions of emissions and {name} must match, "
                    f"got {(emissions.size(0), emissions.size(1))} and {(other.size(0), other.size(1))}"
                )
        # A look at a mask on a device would wait for it; a sequence that begins later is packed like any other.
        if mask is not None and (torch.jit.is_scripting() or not mask.is_cuda):
            first = mask[:, 0] if self.batch_first else mask[0]
            if not bool(first.all()):
                raise ValueError("mask of the first timestep must all be on")

    @torch.jit.unused
    def _terms(self) -> ChainTerms:
        names = list(range(self.num_tags))
        rules = ChainRules(names, resolve_constraints(None, np.array(names)), _IGNORED)
        return ChainTerms(self.transitions, self.start_transitions, self.end_transitions, rules, {})

    @torch.jit.unused
    def _log_likelihood(
        self,
        emissions: torch.Tensor,
        tags: torch.Tensor,
        mask: torch.Tensor | None,
        reduction: str,
    ) -> torch.Tensor:
        # What is not known of tags has no place in this class: tags below zero are those of padding.
        known = tags if tags.dtype == torch.bool else tags.clamp_min(-1)
        chains = read_chains(self._terms(), emissions, mask=mask, labels=known)
        return -chains.loss(reduction)

    @torch.jit.unused
    def _decode(self, emissions: torch.Tensor, mask: torch.Tensor | None) -> list[list[int]]:
        with torch.no_grad():
            return PackedChains(self._terms(), emissions, mask=mask).best_lists()

    # ---- plain twins, for scripts

    def _plain_log_likelihood(
        self,
        emissions: torch.Tensor,
        tags: torch.Tensor,
        mask: torch.Tensor | None,
        reduction: str,
    ) -> torch.Tensor:
        """Return the log-likelihood by recursions that skip masked positions."""
        on = tags >= 0
        if mask is not None:
            on = on & (mask != 0)
        scores, steps = emissions.double(), self.transitions.double()
        start, end = self.start_transitions.double(), self.end_transitions.double()
        known = tags.clamp(min=0)
        own = scores.gather(2, known.unsqueeze(2)).squeeze(2)
        alpha, path = start + scores[:, 0], start[known[:, 0]] + own[:, 0]
        last, begun = known[:, 0], on[:, 0]
        for t in range(1, emissions.size(1)):
            here, goes_on = on[:, t], on[:, t] & begun
            first, tag = here & ~begun, known[:, t]
            following = torch.logsumexp(alpha.unsqueeze(2) + steps, dim=1) + scores[:, t]
            alpha = torch.where(goes_on.unsqueeze(1), following, alpha)
            alpha = torch.where(first.unsqueeze(1), start + scores[:, t], alpha)
            path = torch.where(goes_on, path + steps[last, tag] + own[:, t], path)
            path = torch.where(first, start[tag] + own[:, t], path)
            last, begun = torch.where(here, tag, last), begun | here
        found = torch.where(begun, path + end[last] - torch.logsumexp(alpha + end, dim=1), 0.0)
        found = found.to(emissions.dtype)
        if reduction == "none":
            return found
        if reduction == "sum":
            return found.sum()
        return found.sum() / (begun.sum() if reduction == "mean" else on.sum())

    def _plain_decode(
        self,
        emissions: torch.Tensor,
        mask: torch.Tensor | None,
    ) -> list[list[int]]:
        """Return the best tags by a recursion of maxima and back-pointers."""
        on = torch.ones_like(emissions[:, :, 0], dtype=torch.bool)
        if mask is not None:
            on = mask != 0
        scores, steps = emissions.double(), self.transitions.double()
        best = self.start_transitions.double() + scores[:, 0]
        pointers = torch.zeros_like(emissions, dtype=torch.int64)
        for t in range(1, emissions.size(1)):
            highest, before = (best.unsqueeze(2) + steps).max(dim=1)
            pointers[:, t] = before
            best = torch.where(on[:, t].unsqueeze(1), highest + scores[:, t], best)
        last = (best + self.end_transitions.double()).argmax(dim=1)
        found: list[list[int]] = []
        for i in range(emissions.size(0)):
            tag = int(last[i])
            tags: list[int] = []
            for back in range(emissions.size(1)):
                t = emissions.size(1) - 1 - back
                if bool(on[i, t]):
                    tags.append(tag)
                    tag = int(pointers[i, t, tag])
            tags.reverse()
            found.append(tags)
        return found
