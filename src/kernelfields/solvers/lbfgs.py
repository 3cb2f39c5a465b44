"""Limited-memory BFGS: the standard primal solver, a gradient per iteration.

    H ~ gamma D^-1 updated by the last m pairs (s_j = theta_{j+1} - theta_j, y_j = grad_{j+1} - grad_j)
    gamma = s_m . y_m / y_m . D^-1 y_m

D is about the curvature late in a fit: a Gram matrix of the features and the prior, where these are dense, else one
number for a clique set (objective/coordinates.py). Pairs are kept in coordinates in which D is the identity, where
the features are and in their precision: they only shape the direction, whose slope and step are float64. Cost per
iteration: one pass, the two-loop recursion, O(m size), and four products with triangular factors, O(r^2 q).

On sparse features, some epochs of stochastic steps come close to the optimum for the price of as many passes on one
thread; the curvature there then measures the coordinates for L-BFGS. The steps climb the dual, where every coefficient
has a Gaussian prior that is not very weak, and end by a gap of their own (objective/stochastic.py).
benchmarks/crfsuite_speed.py prints what this saves.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from kernelfields import objective
from kernelfields.numerics.vectors import add_scaled, dot
from kernelfields.objective.coordinates import Coordinates
from kernelfields.objective.datafit import StepMemory
from kernelfields.objective.posterior import Direction, LogPosterior, Point
from kernelfields.solvers.loop import SLOPE_REDUCTION, DirectionRule


class StepPairs:
    """The last ``limit`` pairs, in coordinates with D the identity.

    They have one place for all: vectors that come and go would leave holes in memory that nothing else fits into.
    """

    def __init__(self, limit: int, coordinates: Coordinates):
        self._coordinates = coordinates
        self._limit, self._added = limit, 0
        self._room = np.empty((limit, 2, 0))
        self._pairs: deque[tuple[np.ndarray, np.ndarray, float]] = deque(maxlen=limit)

    def add(self, step: np.ndarray, change: np.ndarray, product: float) -> None:
        """Keep a step s, the change y of the gradient over it, and s . y > 0."""
        s = self._coordinates.transform_step(step)
        if not self._added:
            self._room = np.empty((self._limit, 2, len(s)), dtype=s.dtype)
        place = self._room[self._added % self._limit]
        place[0], place[1] = s, self._coordinates.transform_gradient(change)
        self._pairs.append((place[0], place[1], product))
        self._added += 1

    def inverse_product(self, vector: np.ndarray, free: np.ndarray | None = None) -> np.ndarray:
        """Return the quasi-Newton inverse Hessian times a vector; there must be a pair.

        With ``free`` (size,), it is that of these coordinates alone; the others are only scaled.
        """
        whole = self._coordinates.transform_gradient(vector)
        pairs, part = list(self._pairs), whole
        if free is not None and not free.all():
            places = np.flatnonzero(free)
            part = whole[places]
            parts = ((s[places], y[places]) for s, y, _ in self._pairs)
            pairs = [(s, y, sy) for s, y in parts if is_curved(s, y, sy := dot(s, y))]
        weights = []
        for s, y, sy in reversed(pairs):
            weight = dot(s, part) / sy
            add_scaled(part, -weight, y)
            weights.append(weight)
        scale = pairs[-1][2] / dot(pairs[-1][1], pairs[-1][1]) if pairs else 1.0
        part *= scale
        for (s, y, sy), weight in zip(pairs, reversed(weights), strict=True):
            add_scaled(part, weight - dot(y, part) / sy, s)
        if part is not whole:
            whole *= scale
            whole[places] = part
        return self._coordinates.direction(whole)


def is_curved(step: np.ndarray, change: np.ndarray, product: float) -> bool:
    """Whether the gradient changes along a step, in any unit; ``product`` is their inner product."""
    return product > 1e-10 * np.sqrt(dot(step, step) * dot(change, change))


# With millions of coefficients, a hundred pairs would outweigh the data; fewer cost some more iterations.
_HISTORY_BYTES = 256 * 2**20
_FEWEST_PAIRS = 8
# Nats by which the first step from a stochastic start may move a potential.
_NEARBY = 1.0


class StochasticStart:
    """A start of :class:`LBFGS` at the end of a stochastic ascent of the dual from zero.

    Parameters
    ----------
    random_state : int, Generator or None, default 0
        The seed of the order of sequences.
    close : float, default 0.0
        With l1, the relative gap at which it ends, about.

    Examples
    --------
    >>> from kernelfields import ChainCRF
    >>> from kernelfields.solvers import LBFGS, StochasticStart
    >>> X = [[{"word": "Ann"}, {"word": "sings"}], [{"word": "Bob"}, {"word": "sings"}]]
    >>> solver = LBFGS(start=StochasticStart(random_state=0))
    >>> crf = ChainCRF("linear", prior_variance=1.0, solver=solver).fit(X, [["NAME", "VERB"], ["NAME", "VERB"]])
    >>> crf.predict([[{"word": "Bob"}]])[0]
    ['NAME']
    """

    def __init__(self, random_state: int | np.random.Generator | None = 0, close: float = 0.0):
        self.random_state, self.close = random_state, close

    def point(self, posterior: LogPosterior) -> np.ndarray:
        """Return the coefficients after the ascent; zero if the ascent is impossible or does not help.

        Parameters
        ----------
        posterior : LogPosterior
            The objective.

        Returns
        -------
        array
            The coefficients.
        """
        start = objective.stochastic.dual_start(posterior, np.random.default_rng(self.random_state), self.close)
        return np.zeros(posterior.size) if start is None else start


class LBFGS(DirectionRule):
    """Limited-memory BFGS: the two-loop recursion over the last steps.

    The name begins with "sgd+" once the start was of use: some fields have no stochastic start, and some fits begin
    elsewhere.

    Parameters
    ----------
    memory : int, optional
        How many steps are remembered, fewer if they would take too much memory; by default the engine says: if vectors
        cost little, more of them save passes.
    start : StochasticStart, optional
        Where to begin; zero by default.
    pairs : object, optional
        Steps of a fit to a share of the same data, to go on with.

    See Also
    --------
    NewtonCG : Takes fewer and dearer iterations.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> from kernelfields.solvers import LBFGS
    >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, window=1, solver=LBFGS(memory=10)).fit(X, y)
    >>> crf.solution_.converged
    True
    """

    name = "lbfgs"

    def __init__(
        self, memory: int | None = None, start: StochasticStart | None = None, pairs: StepMemory | None = None
    ):
        self.memory = memory
        self.start = start
        self.pairs = pairs
        if start is not None:
            self.name = f"sgd+{self.name}"
        self._limit = 0
        self._pairs: StepMemory | None = None
        self._dtype: np.dtype = np.dtype(np.float64)
        self._metric = np.empty(0)
        self._begins = True

    def prepare(self, posterior: LogPosterior) -> None:
        """Forget earlier steps.

        Parameters
        ----------
        posterior : LogPosterior
            The objective.
        """
        if posterior.datafit.designs[0].pair_table is not None:
            objective.fused_trials.prefer_fused_passes(posterior)
        self.name = type(self).name
        # Where every trial costs a pass, a second one must be worth it.
        self.slope_reduction = 0.9 if posterior.trials.fused else SLOPE_REDUCTION
        self._metric = posterior.metric.at_start
        wanted = posterior.datafit.usual_pairs if self.memory is None else self.memory
        # Pairs of a fused fit, or of one with many coefficients, would be most of its memory.
        large = 2 * wanted * posterior.size * posterior.dtype.itemsize > _HISTORY_BYTES
        self._dtype = np.dtype("float32") if posterior.trials.fused or large else posterior.dtype
        affordable = _HISTORY_BYTES // max(1, 2 * posterior.size * self._dtype.itemsize)
        self._limit = min(wanted, max(_FEWEST_PAIRS, affordable))
        self._pairs, self._begins = self.pairs, True

    @property
    def step_memory(self) -> StepMemory | None:
        """The present steps in memory."""
        return self._pairs

    def first_point(self, posterior: LogPosterior) -> np.ndarray:
        """Return the initial point, unless the caller gives one.

        Parameters
        ----------
        posterior : LogPosterior
            The objective.

        Returns
        -------
        array
            The coefficients.
        """
        start = super().first_point(posterior) if self.start is None else self.start.point(posterior)
        if np.any(start):
            self.name = f"sgd+{type(self).name}"
        return start

    def direction(self, point: Point, relative_gap: float) -> Direction:
        """Return minus the quasi-Newton inverse Hessian times the gradient.

        Parameters
        ----------
        point : Point
            The present coefficients.
        relative_gap : float
            How near they are to the minimum.

        Returns
        -------
        Direction
            The direction.
        """
        self.set_coordinates(point)
        return self._within_reach(point, self.quasi_newton(-point.gradient))

    def set_coordinates(self, point: Point) -> None:
        """Set the coordinates by the curvature at the first point, unless that is zero.

        Parameters
        ----------
        point : Point
            The present coefficients; those after the first change nothing.
        """
        if self._begins and np.any(point.theta):
            posterior = point.posterior
            self._metric = posterior.metric.estimate_curvature(posterior.trials.curvature_diagonals(point))
        self._begins = False

    def _within_reach(self, point: Point, direction: np.ndarray) -> Direction:
        """Return a direction; the first one after a stochastic start is limited in length.

        Its length is a guess, and trials far off are dear: their probabilities underflow.
        """
        if self._pairs is None and np.any(point.theta):
            direction = point.posterior.trials.limit_direction(point, direction, _NEARBY)
        return Direction(direction)

    def quasi_newton(self, vector: np.ndarray, free: np.ndarray | None = None) -> np.ndarray:
        """Return the quasi-Newton inverse Hessian times a vector.

        Parameters
        ----------
        vector : array
            The vector.
        free : array, optional
            Which coordinates it is the inverse Hessian of; all by default.

        Returns
        -------
        array
            The product.
        """
        return vector / self._metric if self._pairs is None else self._pairs.inverse_product(vector, free)

    def advance(self, point: Point, direction: Direction) -> tuple[Point | None, float]:
        """Make one step, and store it.

        Parameters
        ----------
        point : Point
            The present coefficients.
        direction : Direction
            A descent direction.

        Returns
        -------
        point : Point or None
            The new point; None if no step improves the value any more.
        step : float
            The length of the step.
        """
        following, step = self._step(point, direction)
        if following is not None:
            self.learn(point, following)
        return following, step

    def _step(self, point: Point, direction: Direction) -> tuple[Point | None, float]:
        return super().advance(point, direction)

    def learn(self, before: Point, after: Point) -> None:
        """Store the step and the change of gradient.

        Parameters
        ----------
        before : Point
            Where it began.
        after : Point
            Where it ended.
        """
        s, y = after.theta - before.theta, after.gradient - before.gradient
        sy = dot(s, y)
        if is_curved(s, y, sy):
            if self._pairs is None:
                metric = after.posterior.metric
                elsewhere = metric.memory(self._limit, self._metric)
                self._pairs = elsewhere or StepPairs(self._limit, metric.coordinates(self._metric, self._dtype))
            self._pairs.add(s, y, sy)
