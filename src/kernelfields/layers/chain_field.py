"""A chain of labels as the last layer of a network: its loss is the exact negative log-likelihood.

    log p(y | x) = score(y) - log sum_{y'} exp score(y')
    score(y)     = start(y_1) + sum_t u_t(y_t) + sum_{t > 1} (transitions(y_{t-1}, y_t) + w_t(y_{t-1}, y_t)) + end(y_T)

u_t (scores) and optionally w_t (pair scores) come from the network; transitions, start and end are parameters of the
layer. The loss is the difference of two log sums over labellings:

    loss = log sum_{y'} exp score(y') - log sum_{y' consistent with the known labels} exp score(y')

Sums are those of likelihood.py, in float64 for scores of any type; gradients are marginals minus marginals conditioned
on the known labels. For float32 scores, losses and gradients are rounded to float32 once, at the end.

Arrays: scores (B, T, L) padded at the end, or (N, L) of sequences end to end; pair scores (B, T, L, L) or (N, L, L).
Cost: O(N L^2), one pass, on the device of the scores for CUDA, without copies to the host (device_chains.py), else
by compiled code of the host (packed_chains.py); a second pass if labels are partly known. Raises ValueError with the
sequence and position for labels that constraints forbid, for NaN among scores, and for incompatible shapes.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import torch

from kernelfields.data.constraints import resolve_constraints
from kernelfields.data.spans import find_spans
from kernelfields.data.text_files import open_output
from kernelfields.estimators.span_questions import Entity, check_least, list_entities
from kernelfields.evaluation.entities import span_rules
from kernelfields.layers.device_chains import read_chains
from kernelfields.layers.encoders import write_encoder
from kernelfields.layers.label_options import read_ignored, read_names, read_weights
from kernelfields.layers.packed_chains import REDUCTIONS, ChainRules, ChainTerms, PackedChains
from kernelfields.numerics.parameters import check_choice
from kernelfields.serving.onnx_layers import ChainLayer, write_chain_layer


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
    ignore_index : int or None, default -100
        The label that leaves a position out of its sequence, as False in a mask does.
    label_weights : sequence or dict, optional
        How much each label counts in the loss: a position by the weight of its label, given the labels before it. By
        default all count alike. A dict names labels; those that it does not name have a weight of 1.
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
    >>> loss = layer.loss(scores, torch.tensor([[0, 1]]))
    >>> loss.backward()
    >>> round(loss.item(), 2), layer.transitions.grad.numpy().round(2)
    (0.44, array([[ 0.24, -0.36],
           [ 0.03,  0.09]], dtype=float32))
    """

    def __init__(
        self,
        labels: Any,
        *,
        constraints: Any = None,
        ends: bool = True,
        ignore_index: int | None = -100,
        label_weights: Any = None,
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__()
        self.labels = read_names(labels)
        n_labels = len(self.labels)
        masks = resolve_constraints(constraints, np.array(self.labels))
        ignored = read_ignored(ignore_index, n_labels)
        self._rules = ChainRules(self.labels, masks, ignored, read_weights(label_weights, self.labels))
        self.transitions = torch.nn.Parameter(torch.zeros(n_labels, n_labels, device=device, dtype=dtype))
        for name in ("start", "end"):
            own = torch.nn.Parameter(torch.zeros(n_labels, device=device, dtype=dtype)) if ends else None
            self.register_parameter(name, own)
        # Arrays of the host, not buffers: a buffer that is made on the meta device holds nothing once it is emptied.
        self._forbidden = self._rules.forbidden
        self._placed: dict[torch.device, dict[str, torch.Tensor]] = {}

    @property
    def ignore_index(self) -> int | None:
        """The label of ignored positions."""
        return self._rules.ignore_index

    @property
    def label_weights(self) -> torch.Tensor | None:
        """The weights of labels in the loss, (L,); None for equal weights."""
        return None if self._rules.weights is None else torch.as_tensor(self._rules.weights)

    @property
    def forbidden_steps(self) -> torch.Tensor:
        """Mask of forbidden transitions, (L, L) of booleans."""
        return self._terms().forbidden["steps"]

    @property
    def forbidden_start(self) -> torch.Tensor:
        """Mask of labels that may not begin a sequence, (L,)."""
        return self._terms().forbidden["start"]

    @property
    def forbidden_end(self) -> torch.Tensor:
        """Mask of labels that may not end a sequence, (L,)."""
        return self._terms().forbidden["end"]

    def _terms(self) -> ChainTerms:
        device = self.transitions.device
        if device not in self._placed:  # once for each device: a copy waits for it
            placed = {name: torch.as_tensor(each, device=device) for name, each in self._forbidden.items()}
            self._placed[device] = placed
        return ChainTerms(self.transitions, self.start, self.end, self._rules, self._placed[device])

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
            "a call of a ChainField could mean either sign: write layer.loss(scores, labels), which is minimised, or "
            "layer.log_likelihood(scores, labels); kernelfields.layers.compat.CRF is called as in pytorch-crf"
        )

    def loss(
        self,
        scores: torch.Tensor,
        labels: torch.Tensor,
        lengths: Any = None,
        mask: Any = None,
        *,
        pair_scores: torch.Tensor | None = None,
        reduction: str = "mean",
    ) -> torch.Tensor:
        """Compute the negative log-likelihood of labels, which may be partial, for minimization in training.

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
        pair_scores : tensor (B, T, L, L) or (N, L, L), optional
            Scores of steps into each position, which are added to ``transitions``.
        reduction : {"mean", "token_mean", "sum", "none"}, default "mean"
            Whether to return the mean over sequences or over positions, the sum, or one number for each sequence.
            Sequences without positions have a loss of zero and do not count in means.

        Returns
        -------
        tensor () or (B,)
            The loss, at least zero.

        Raises
        ------
        ValueError
            If shapes do not fit together, if a score is NaN, or if constraints forbid all labellings.

        Examples
        --------
        >>> import torch
        >>> from kernelfields.layers import ChainField
        >>> layer = ChainField(2)
        >>> scores = torch.tensor([[[2.0, 0.0], [0.0, 1.0], [3.0, 0.0]]])
        >>> round(layer.loss(scores, torch.tensor([[0, -1, 0]])).item(), 3)  # the second label is not known
        0.176
        >>> round(layer.loss(scores, torch.tensor([[0, -100, 0]])).item(), 3)  # the second position is left out
        0.176
        """
        check_choice(reduction, "reduction", REDUCTIONS)
        chains = read_chains(self._terms(), scores, lengths, mask, labels=labels, pair_scores=pair_scores)
        return chains.loss(reduction)

    def log_likelihood(
        self,
        scores: torch.Tensor,
        labels: torch.Tensor,
        lengths: Any = None,
        mask: Any = None,
        *,
        pair_scores: torch.Tensor | None = None,
        reduction: str = "none",
    ) -> torch.Tensor:
        """Compute the log-likelihood of labels, which may be partial: minus :meth:`loss`.

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
        pair_scores : tensor (B, T, L, L) or (N, L, L), optional
            Scores of steps into each position, which are added to ``transitions``.
        reduction : {"none", "mean", "token_mean", "sum"}, default "none"
            One number for each sequence, or those of :meth:`loss`.

        Returns
        -------
        tensor (B,) or ()
            The log-likelihood, at most zero.

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
        >>> layer.log_likelihood(scores, torch.tensor([[0, 1]])).exp().detach().numpy().round(2)
        array([0.64], dtype=float32)
        """
        return -self.loss(scores, labels, lengths, mask, pair_scores=pair_scores, reduction=reduction)

    def log_partition(
        self,
        scores: torch.Tensor,
        lengths: Any = None,
        mask: Any = None,
        *,
        labels: torch.Tensor | None = None,
        pair_scores: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Compute the logarithm of the sum over all labellings, or over the labellings consistent with ``labels``.

        Parameters
        ----------
        scores : tensor (B, T, L) or (N, L)
            The scores of labels, padded, or of sequences end to end.
        lengths : tensor (B,), optional
            The lengths of the sequences; by default all are full.
        mask : bool tensor (B, T), optional
            The positions that belong to sequences, in place of lengths; it may have gaps.
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
        chains = read_chains(self._terms(), scores, lengths, mask, labels=labels, pair_scores=pair_scores)
        return chains.restore(chains.log_partition() if labels is None else chains.known_log_partition())

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
            The scores of labels, padded, or of sequences end to end.
        lengths : tensor (B,), optional
            The lengths of the sequences; by default all are full.
        mask : bool tensor (B, T), optional
            The positions that belong to sequences, in place of lengths; it may have gaps.
        labels : tensor (B, T) or (N,), optional
            Numbers of labels, -1 if a label is not known; or sets of labels as a bool mask, shaped like the scores. By
            default nothing is known.
        pair_scores : tensor (B, T, L, L) or (N, L, L), optional
            Scores of steps into each position, which are added to ``transitions``.

        Returns
        -------
        tensor (B, T) or (N,)
            Numbers of labels, -1 at positions that belong to no sequence.

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
        return PackedChains(self._terms(), scores, lengths, mask, labels=labels, pair_scores=pair_scores).best()

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
            The scores of labels, padded, or of sequences end to end.
        lengths : tensor (B,), optional
            The lengths of the sequences; by default all are full.
        mask : bool tensor (B, T), optional
            The positions that belong to sequences, in place of lengths; it may have gaps.
        labels : tensor (B, T) or (N,), optional
            Numbers of labels, -1 if a label is not known; or sets of labels as a bool mask, shaped like the scores. By
            default nothing is known.
        pair_scores : tensor (B, T, L, L) or (N, L, L), optional
            Scores of steps into each position, which are added to ``transitions``.

        Returns
        -------
        tensor (B, T, L) or (N, L)
            The probabilities, 0 at positions that belong to no sequence.

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
        return PackedChains(self._terms(), scores, lengths, mask, labels=labels, pair_scores=pair_scores).marginals()

    @torch.no_grad()
    def nbest(
        self,
        scores: torch.Tensor,
        k: int,
        lengths: Any = None,
        mask: Any = None,
        *,
        labels: torch.Tensor | None = None,
        pair_scores: torch.Tensor | None = None,
    ) -> list[list[tuple[list[int], float]]]:
        """Find the k most probable labellings of each sequence, with the logarithms of their probabilities.

        Parameters
        ----------
        scores : tensor (B, T, L) or (N, L)
            The scores of labels, padded, or of sequences end to end.
        k : int
            The number of labellings.
        lengths : tensor (B,), optional
            The lengths of the sequences; by default all are full.
        mask : bool tensor (B, T), optional
            The positions that belong to sequences, in place of lengths; it may have gaps.
        labels : tensor (B, T) or (N,), optional
            Numbers of labels, -1 if a label is not known; or sets of labels as a bool mask, shaped like the scores. By
            default nothing is known.
        pair_scores : tensor (B, T, L, L) or (N, L, L), optional
            Scores of steps into each position, which are added to ``transitions``.

        Returns
        -------
        list of lists of pairs
            For each sequence labels of its positions and log-probabilities, the best first; fewer if there are no more.

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
        >>> [(labels, round(logarithm, 2)) for labels, logarithm in layer.nbest(scores, 2)[0]]
        [([0, 1], -0.44), ([0, 0], -1.44)]
        """
        chains = PackedChains(self._terms(), scores, lengths, mask, labels=labels, pair_scores=pair_scores)
        answers = chains.answers()
        found, values = answers.family.labellings(answers.potentials, answers.workers).n_best(k)
        return chains.positions.lists(
            [(own.tolist(), float(value - total)) for own, value in zip(*each, strict=True)]
            for *each, total in zip(found, values, answers.log_partition, strict=True)
        )

    @torch.no_grad()
    def entities(
        self,
        scores: torch.Tensor,
        lengths: Any = None,
        mask: Any = None,
        *,
        labels: torch.Tensor | None = None,
        pair_scores: torch.Tensor | None = None,
        scheme: str | None = "auto",
        least: float = 0.05,
    ) -> list[list[Entity]]:
        """Return the entities of the best labelling of each sequence, with their probabilities.

        The probability of an entity is that of the whole span among all labellings: that it begins and ends where it
        does, with its type. It is exact.

        Parameters
        ----------
        scores : tensor (B, T, L) or (N, L)
            The scores of labels, padded, or of sequences end to end.
        lengths : tensor (B,), optional
            The lengths of the sequences; by default all are full.
        mask : bool tensor (B, T), optional
            The positions that belong to sequences, in place of lengths; it may have gaps.
        labels : tensor (B, T) or (N,), optional
            Numbers of labels, -1 if a label is not known; or sets of labels as a bool mask, shaped like the scores. By
            default nothing is known.
        pair_scores : tensor (B, T, L, L) or (N, L, L), optional
            Scores of steps into each position, which are added to ``transitions``.
        scheme : {"auto", "bio", "iob1", "bioes", "bilou"} or None, default "auto"
            How the names of labels write entities; "auto" guesses it. Without a scheme an entity is a run of one label
            other than "O".
        least : float, default 0.05
            The least probability of alternatives, which are spans that overlap an entity.

        Returns
        -------
        list of lists of Entity
            For each sequence its entities: label, begin, end (exclusive), probability, alternatives. Positions are
            counted among those of the sequence, without gaps: as words, where the mask selects words.

        Raises
        ------
        ValueError
            If shapes do not fit together, if a score is NaN, or if constraints forbid all labellings.

        See Also
        --------
        kernelfields.ChainCRF.predict_entities : Return the entities of a field that is no layer.

        Examples
        --------
        >>> import torch
        >>> from kernelfields.layers import ChainField
        >>> layer = ChainField(["O", "B-PER", "I-PER"], constraints="bio")
        >>> scores = torch.tensor([[[0.0, 3.0, 0.0], [0.0, 0.0, 2.0], [4.0, 0.0, 0.0]]])
        >>> (entity,) = layer.entities(scores)[0]
        >>> entity.label, entity.begin, entity.end, round(entity.probability, 2)
        ('PER', 0, 2, 0.77)
        """
        check_least(least)
        chains = PackedChains(self._terms(), scores, lengths, mask, labels=labels, pair_scores=pair_scores)
        if not chains.positions.n_positions:
            return chains.positions.lists([])
        rules, types = span_rules(self.labels, scheme)
        answers = chains.answers()
        bounds = find_spans(answers.best_labels(), answers.family.offsets, rules)
        return chains.positions.lists(list_entities(answers, bounds, rules, types, float(least)))

    def to_onnx(self, path: Any, *, encoder: torch.nn.Module | None = None, inputs: Any = None) -> None:
        """Write the layer as an ONNX graph, alone or behind an encoder.

        It needs the package ``onnx``. The inputs of the graph are ``scores`` (B, T, L), float, or those of the encoder,
        and ``mask`` (B, T), which may have gaps; its outputs are ``labels`` (B, T), -1 where the mask is False,
        ``score`` (B,), the log-probability of these labels, and ``marginals`` (B, T, L). Batch and time may have any
        length. Sums are in double precision.

        Parameters
        ----------
        path : path
            The file to write; it replaces an old one once it is complete.
        encoder : Module, optional
            A network that returns the scores; by default they are an input of the graph.
        inputs : dict of str to tensor, optional
            Example inputs of the encoder, in the order of its call, by the names that they get.

        Raises
        ------
        ServingError
            If an input of the encoder is called ``mask``.

        Examples
        --------
        >>> import torch
        >>> from onnxruntime import InferenceSession
        >>> from kernelfields.layers import ChainField
        >>> ChainField(2).to_onnx("layer.onnx")
        >>> scores, mask = torch.tensor([[[2.0, 0.0], [9.0, 0.0], [0.0, 1.0]]]), torch.tensor([[True, False, True]])
        >>> session = InferenceSession("layer.onnx")
        >>> labels, score, marginals = session.run(None, {"scores": scores.numpy(), "mask": mask.numpy()})
        >>> labels.tolist(), score.round(2), marginals.shape
        ([[0, -1, 1]], array([-0.44], dtype=float32), (1, 3, 2))
        """
        terms = self._terms()

        def masked(own: torch.Tensor | None, name: str) -> np.ndarray:
            forbidden = terms.forbidden[name].cpu().numpy()
            given = 0.0 if own is None else own.detach().double().cpu().numpy()
            return np.where(forbidden, -np.inf, given)

        parts = masked(terms.transitions, "steps"), masked(terms.start, "start"), masked(terms.end, "end")
        network = None if encoder is None else write_encoder(encoder, inputs)
        content = write_chain_layer(ChainLayer(*parts, self.labels), network)
        with open_output(path) as file:
            file.write(content)

    def extra_repr(self) -> str:
        """Return the description of the layer in the display of a network.

        Returns
        -------
        str
            The number of labels, and what differs from the defaults.
        """
        constraints = f", constraints={self._rules.masks.scheme or 'some'!r}" if self._rules.masks.any else ""
        return f"{len(self.labels)} labels{constraints}, ends={self.start is not None}"
