"""Answers about coefficients: their distance from the optimum, and their posterior around a fit.

Each is a function that fields have as a method.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from kernelfields.data.reading import Seed, random_generator
from kernelfields.engines.choice import resolve_scoring_engine
from kernelfields.estimators import library
from kernelfields.estimators.answering.lengths import cut_by_lengths
from kernelfields.estimators.kept_field import KeptField, blas_limit
from kernelfields.estimators.workers import distribute_method
from kernelfields.models.exact_certificate import certify as certify_field
from kernelfields.models.partial import refuse_expectations
from kernelfields.numerics.parameters import check_count
from kernelfields.numerics.threads import Workers, blas_threads

if TYPE_CHECKING:
    from kernelfields.objective.bounds import Certificate
    from kernelfields.posterior.laplace.laplace import Evidence


def certify(
    self: KeptField[Any, Any],
    X: object,
    y: object,
    *,
    scope: str = "rkhs",
    sample_weight: ArrayLike | None = None,
    lengths: ArrayLike | None = None,
) -> Certificate:
    """Return a bound on the distance of the fitted field from the optimum on the data of the fit.

    The gradient at the fitted field alone proves it; ``certificate_`` combines points and may be tighter.

    Parameters
    ----------
    X : inputs
        The inputs of the fit.
    y : labels
        The labels of the fit.
    scope : {"rkhs", "span"}, default "rkhs"
        Among which functions: all of the RKHS, in O(N^2) evaluations of the kernel, or those in the span of the
        basis.
    sample_weight : array (n_items,) or None, default None
        One weight for each sequence, graph or row.
    lengths : array (n_items,) or mask (n_items, T), default None
        The lengths of sequences in one array, as for :meth:`fit`.

    Returns
    -------
    Certificate
        The value of the objective and a lower bound of its minimum.

    Raises
    ------
    ValueError
        If the fit had expectations.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
    >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0).fit(X, y)
    >>> certificate = crf.certify(X, y)
    >>> certificate.scope, bool(certificate.relative_gap < 0.05)
    ('rkhs', True)
    """
    if lengths is not None:
        X, y = cut_by_lengths(self._answer_format, X, y, lengths)
    fitted = self._field()
    refuse_expectations(
        self.structure, "certify", "certificate_ and stationarity_ show how near the fit is to a minimum"
    )
    if scope not in ("rkhs", "span"):
        raise ValueError(f"scope must be 'rkhs' or 'span', got {scope!r}")
    data = self.structure.read_training(X, y, sample_weight)
    place = resolve_scoring_engine(self.engine, n_values=self._n_values(data))
    with blas_threads(blas_limit(self, data.n_positions)):
        return certify_field(fitted, data, Workers(self.n_jobs), scope, place)


@distribute_method
def laplace(
    self: KeptField[Any, Any],
    X: object,
    y: object,
    sample_weight: ArrayLike | None = None,
    *,
    n_samples: int = 50,
    method: str = "auto",
    steps: int = 100,
    probes: int = 10,
    random_state: Seed = None,
    lengths: ArrayLike | None = None,
) -> Evidence:
    """Approximate the posterior of the coefficients by a Gaussian, and estimate the log evidence.

    It draws coefficients for :meth:`predict_variances` and for predictions with ``uncertainty=True``. What the
    basis cannot express of an input keeps its prior variance, less the most that it leaves out of any training
    input. A warning says if the posterior is no Gaussian around the mode.

    Parameters
    ----------
    X : inputs
        The inputs of the fit.
    y : labels
        The labels of the fit.
    sample_weight : array (n_items,) or None, default None
        One weight for each sequence, graph or row.
    n_samples : int, default 50
        The number of coefficient vectors to draw.
    method : {"auto", "exact", "lanczos"}, default "auto"
        "exact" factors the Hessian, "lanczos" works with products of it; "auto" is exact for small fields.
    steps : int, default 100
        The number of products for each probe and for each sample, for "lanczos".
    probes : int, default 10
        The number of estimates of the log determinant, for "lanczos".
    random_state : int, Generator, RandomState or None, default None
        The source of randomness.
    lengths : array (n_items,) or mask (n_items, T), default None
        The lengths of sequences in one array, as for :meth:`fit`.

    Returns
    -------
    Evidence
        The log evidence and its standard error.

    Raises
    ------
    ValueError
        If the fit had expectations.

    See Also
    --------
    predict_marginals : Return marginals that allow for doubt, with ``uncertainty=True``.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
    >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0).fit(X, y)
    >>> evidence = crf.laplace(X, y, random_state=0)
    >>> round(evidence.value, 1), evidence.standard_error
    (-4.0, 0.0)
    >>> crf.predict_marginals([[[21.0]]])[0].round(2)
    array([[0.21, 0.79]])
    >>> crf.predict_marginals([[[21.0]]], uncertainty=True)[0].round(2)
    array([[0.26, 0.74]])
    """
    if lengths is not None:
        X, y = cut_by_lengths(self._answer_format, X, y, lengths)
    for name, number in (("n_samples", n_samples), ("steps", steps), ("probes", probes)):
        check_count(number, name)
    terms = self._field().terms
    refuse_expectations(self.structure, "laplace", "fit without them for a posterior")
    data = self.structure.read_training(X, y, sample_weight).drop_weightless()
    settings = self._sample_settings(sum(not term.is_constant for term in terms))
    sample = self._engine(data).place(data, self._field().spec, settings)
    with library.show_messages(self) as announce:
        self.laplace_ = library.draw_posterior(
            terms,
            sample,
            n_samples=n_samples,
            method=method,
            steps=steps,
            probes=probes,
            random=random_generator(random_state),
            # After batches there are no data of the fit that could be compared.
            fitted_value=self.solution_.value if self.continuation_ is None else None,
            announce=announce,
        )
    return self.laplace_.evidence


def sample_coefficients(self: KeptField[Any, Any]) -> dict[str, np.ndarray]:
    """Return the coefficients drawn by :meth:`laplace`.

    Returns
    -------
    dict of str to ndarray (n_samples, rank, labellings)
        The draws of each term by its name; for n-grams that were seen in training (n_samples, 1, n-grams).

    Raises
    ------
    ValueError
        If :meth:`laplace` was not called.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
    >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0).fit(X, y)
    >>> evidence = crf.laplace(X, y, n_samples=20, random_state=0)
    >>> {name: draws.shape for name, draws in crf.sample_coefficients().items()}
    {'node': (20, 6, 2), 'edge': (20, 1, 4)}
    """
    return {
        term.name: np.stack([term.expand_labellings(row) for row in drawn])
        for term, drawn in zip(self._field().terms, library.get_drawn_coefficients(self).samples, strict=True)
    }
