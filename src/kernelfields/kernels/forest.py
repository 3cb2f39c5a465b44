"""The kernel of a forest: the share of trees in which two inputs fall into one leaf.

    k(x, z) = (1 / T) sum_t [ leaf_t(x) = leaf_t(z) ]  =  phi(x) . phi(z),     phi has 1 / sqrt(T) at the T leaves of x

It is positive semi-definite as a sum of products of indicators. Trees are grown on labelled inputs, so that distances
are short where labels agree and scales of columns do not matter. Inputs that grew the trees resemble each other more
than new ones do: the prior variance has to be chosen on held-out data, as ``prior_variance="auto"`` does with trees
grown without them.

Trees are stored end to end, a row for each node: column, threshold, left and right child by their rows; a leaf is its
own child, with column -1. Inputs go left where x[column] <= threshold, compared in float32 as scikit-learn does.

Cost: O(n T depth) for leaves, O(n m T) for a block (n, m). Raises ValueError where trees are missing or not sound.

    Davies and Ghahramani (2014), The random forest kernel and creating other kernels from random partitions.
    Scornet (2016), Random forests and kernel methods.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from kernelfields.kernels import arrays
from kernelfields.kernels.kernel import Kernel, Towards, checked, declares_parameters, register
from kernelfields.kernels.parameters import whole
from kernelfields.numerics.sparse_rows import Rows, is_sparse

# Comparisons of leaves are made for so many pairs of rows at a time.
_PAIRS = 2**20
# Leaves are found of so many rows at a time, in all trees.
_ROWS = 256


@register("forest")
@declares_parameters
class Forest(Kernel):
    """The share of trees in which two inputs share a leaf, for the potentials of single labels.

    Distances are short where labels agree, and scales of columns do not matter. Inputs that grew the trees resemble
    each other more than new ones do: choose the prior variance on held-out data, as ``prior_variance="auto"`` does.

    Parameters
    ----------
    n_trees : int, default 100
        The number of trees.
    min_samples_leaf : int, default 20
        The least number of training inputs in a leaf.
    random_state : int, default 0
        The seed of the trees.
    trees : array (nodes, 4), optional
        Trees that were grown before: column, threshold and the rows of two children for each node. By default extremely
        randomised trees are grown on the inputs of ``fit`` whose label is known, by scikit-learn.

    References
    ----------
    Davies and Ghahramani (2014), The random forest kernel and creating other kernels from random partitions.
    Scornet (2016), Random forests and kernel methods.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.kernels import Forest
    >>> X = np.array([[0.0], [0.1], [0.9], [1.0]])
    >>> kernel = Forest(n_trees=10, min_samples_leaf=1).resolve(X, labels=np.array([0, 0, 1, 1]))
    >>> values = kernel(X[:1], X)[0]  # of the first input with each
    >>> bool(values[1] > values[2])
    True
    """

    shared = frozenset({"trees"})
    n_trees: int = checked(whole, 100)
    min_samples_leaf: int = checked(whole, 20)
    random_state: int = 0
    trees: ArrayLike | None = None
    #: The trees that were prepared last, and what was prepared of them.
    _kept: ClassVar[tuple[object, tuple[np.ndarray, ...]] | None] = None

    def __getstate__(self) -> dict[str, object]:
        # What was prepared is not pickled: it is prepared again where it is needed.
        return {name: value for name, value in self.__dict__.items() if name != "_kept"}

    @property
    def should_keep_rows(self) -> bool:
        """Whether ``resolve`` needs all rows in one process, to grow trees on them."""
        return self.trees is None

    def check_parameters(self) -> None:
        """Check the numbers and the structure of the trees."""
        super().check_parameters()
        if self.trees is not None:
            self._table()

    def resolve(self, X: object, weights: np.ndarray | None = None, labels: np.ndarray | None = None) -> Forest:
        """Return a copy with trees, grown on the rows and their labels unless it has trees already.

        Parameters
        ----------
        X : array or CSR matrix (n, d)
            Training inputs.
        weights : array (n,), optional
            How often each row counts; once by default.
        labels : array (n,), optional
            Numbers of labels, -1 if a row has none.

        Returns
        -------
        Forest
            The copy.
        """
        self.check_parameters()
        if self.trees is not None:
            return self.__sklearn_clone__()
        if labels is None or not (labels >= 0).any():
            raise ValueError(
                "Forest: trees are grown on known labels of inputs, for the potentials of single labels; use another "
                "kernel here, or give trees."
            )
        rows = arrays.on_host(arrays.as_rows(X))
        if labels.ndim == 1 and (known := labels >= 0).sum() < len(labels):
            rows, labels, weights = rows[known], labels[known], None if weights is None else weights[known]
        return self.__sklearn_clone__().set_params(trees=self._grow_trees(rows, weights, labels))

    def spec(self) -> dict[str, object]:
        """Return the description, with the trees as an array.

        Returns
        -------
        dict
            The kind and the parameters.
        """
        return {**super().spec(), "trees": None if self.trees is None else self._table()}

    def _grow_trees(self, X: Rows, weights: np.ndarray | None, labels: np.ndarray) -> np.ndarray:
        from sklearn.ensemble import ExtraTreesClassifier

        grown = ExtraTreesClassifier(
            whole(self, "n_trees"), min_samples_leaf=whole(self, "min_samples_leaf"), random_state=self.random_state
        ).fit(X, labels, weights)
        tables, first = [], 0
        for each in grown.estimators_:
            tree = each.tree_
            own = np.arange(tree.node_count)
            leaf = tree.children_left < 0
            children = [np.where(leaf, own, side) + first for side in (tree.children_left, tree.children_right)]
            tables.append(np.column_stack([np.where(leaf, -1, tree.feature), tree.threshold, *children]))
            first += tree.node_count
        return np.vstack(tables)

    def _table(self) -> np.ndarray:
        """Return the checked trees as an array: children come after their parents, each with one parent."""
        try:
            table = np.asarray(self.trees, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"Forest: trees must be an array of numbers: {error}.") from error
        if table.ndim != 2 or table.shape[1] != 4 or not len(table) or not np.isfinite(table).all():
            raise ValueError(f"Forest: trees must be an array (nodes, 4) of finite numbers, got shape {table.shape}.")
        own, inner = np.arange(len(table)), table[:, 0] >= 0
        below = table[inner][:, 2:].astype(np.int64)
        sound = (table[~inner][:, 2:] == own[~inner, None]).all() and (below > own[inner, None]).all()
        if not sound or (below >= len(table)).any() or len(np.unique(below)) != below.size:
            raise ValueError("Forest: trees must have the rows of two later nodes as children of each inner node.")
        return table

    def _state(self) -> tuple[np.ndarray, ...]:
        """Return roots, columns, thresholds and children (2 nodes,) of the trees, computed once."""
        if self._kept is None or self._kept[0] is not self.trees:
            self._kept = self.trees, self._prepare()  # type: ignore[misc]  # no parameter of the dataclass
        return self._kept[1]

    def _prepare(self) -> tuple[np.ndarray, ...]:
        self.check_parameters()
        if self.trees is None:
            raise ValueError("Forest: call resolve(X, labels=...) with labelled inputs first, or give trees.")
        table = self._table()
        column, children = table[:, 0].astype(np.intp), table[:, 2:].astype(np.intp)
        is_root = np.ones(len(table), dtype=bool)
        is_root[children[column >= 0]] = False
        return np.flatnonzero(is_root), column, table[:, 1].copy(), children.ravel()

    def _leaves(self, X: Rows) -> np.ndarray:
        """Return the leaf of every row in each tree, (n, T)."""
        roots, column, threshold, children = self._state()
        if column.max(initial=-1) >= X.shape[1]:
            raise ValueError(f"Forest: trees compare column {column.max()}, and the inputs have {X.shape[1]} columns.")
        dense = X.toarray() if is_sparse(X) else X
        if not isinstance(dense, np.ndarray):
            raise TypeError("Forest: leaves are found of arrays")
        leaves = np.empty((len(dense), len(roots)), dtype=np.int32)
        for begin in range(0, len(dense), _ROWS):
            part = dense[begin : begin + _ROWS].astype(np.float32)
            # All rows and trees go down together; indices are in range, and mode="clip" leaves out the check of each.
            found = np.tile(roots, len(part))
            row = np.repeat(np.arange(len(part)) * part.shape[1], len(roots))
            moving = np.flatnonzero(column[found] >= 0)
            while len(moving):
                node = found.take(moving, mode="clip")
                values = part.take(row.take(moving, mode="clip") + column.take(node, mode="clip"), mode="clip")
                node = children.take(2 * node + (values > threshold.take(node, mode="clip")), mode="clip")
                found[moving] = node
                moving = moving[column.take(node, mode="clip") >= 0]
            leaves[begin : begin + _ROWS] = found.reshape(len(part), len(roots))
        return leaves

    def _towards(self, Z: Rows) -> Towards:
        others, n_trees = self._leaves(Z).T.copy(), len(self._state()[0])

        def block(X: Rows) -> np.ndarray:
            leaves, counts = self._leaves(X), np.zeros((X.shape[0], Z.shape[0]), dtype=np.int32)
            some = max(1, _PAIRS // max(1, Z.shape[0]))
            for first in range(0, len(leaves), some):
                part = counts[first : first + some]
                for tree, other in zip(leaves[first : first + some].T, others, strict=True):
                    part += tree[:, None] == other
            return (counts / n_trees).astype(arrays.block_dtype(X, Z))

        return block

    def _block(self, X: Rows, Z: Rows | None) -> np.ndarray:
        return self._towards(X if Z is None else Z)(X)

    def _diagonal(self, X: Rows) -> np.ndarray:
        return np.ones(X.shape[0], dtype=X.dtype)
