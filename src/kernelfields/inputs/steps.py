"""The steps of all tables of rows of a model: positions or nodes, under None, and factors by type.

Whoever has data runs them all in their order; a plain array has none. New steps are added to ``KINDS``, those of
users by :func:`register_step`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple, Self, TypeAlias, TypeVar

import numpy as np

from kernelfields.inputs import kinds
from kernelfields.inputs.step import STATISTICS, InputStep, Layout, Rows, Table

#: Steps of the package in the order in which they run, by their classes, and the settings that ask for them.
KINDS: Mapping[str, Mapping[str, object]] = {
    "WindowStatistics": {"window": STATISTICS},
    "Neighbours": {"neighbours": True},
    "Scale": {"scale": True},
}
#: Steps of users by their entries, which run before columns are scaled.
_REGISTERED: dict[str, type[InputStep]] = {}
#: Values of parameters that ask for steps, by the names of the parameters.
ASKING: dict[str, list[Any]] = {}
#: A table of rows: of a type of factors, or of positions or nodes.
Name: TypeAlias = str | None
Kind = TypeVar("Kind", bound=type[InputStep])


class OwnColumns(NamedTuple):
    """Indices of the columns that kernels read unchanged: of positions, nodes or table rows, and of factors."""

    rows: tuple[int, ...] = ()
    factors: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class ColumnSteps:
    """Run the steps of each table of rows in order.

    Parameters
    ----------
    tables : dict, optional
        The steps of each table: of positions or nodes under None, of factors under their types; by default there are
        none.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.inputs import ColumnSteps, Layout, Scale
    >>> steps = ColumnSteps({None: [Scale(np.array([1.0]), np.array([2.0]))]})
    >>> steps(np.array([[1.0], [5.0]]), Layout(np.array([0, 2]))).ravel().tolist()
    [0.0, 2.0]
    """

    tables: Mapping[Name, Sequence[InputStep]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return any(self.tables.values())

    def of_table(self, name: Name = None) -> Sequence[InputStep]:
        """Return the steps of a table.

        Parameters
        ----------
        name : str, optional
            The name of the table: a type of factors; by default that of positions or nodes.

        Returns
        -------
        sequence of InputStep
            The steps.
        """
        return self.tables.get(name, ())

    def __call__(self, rows: Rows, layout: Layout, name: Name = None) -> Rows:
        """Return the transformed rows of a table."""
        for step in self.of_table(name):
            rows = step(rows, layout)
        return rows

    def undo(self, rows: Rows, name: Name = None) -> Rows:
        """Return transformed rows of a table with the original values.

        Parameters
        ----------
        rows : array (n, d)
            The rewritten rows.
        name : str, optional
            The name of the table: a type of factors; by default that of positions or nodes.

        Returns
        -------
        array (n, d)
            The rows; columns that steps have added stay.
        """
        for step in reversed(self.of_table(name)):
            rows = step.undo(rows)
        return rows

    def with_steps(self, further: ColumnSteps) -> ColumnSteps:
        """Return these steps followed by others.

        Parameters
        ----------
        further : ColumnSteps
            The further steps.

        Returns
        -------
        ColumnSteps
            All steps.
        """
        names = {**self.tables, **further.tables}
        return ColumnSteps({name: [*self.of_table(name), *further.of_table(name)] for name in names})

    def with_table(self, steps: Sequence[InputStep], name: Name = None) -> ColumnSteps:
        """Return these steps with other steps for one of the tables.

        Parameters
        ----------
        steps : sequence of InputStep
            The steps.
        name : str, optional
            The name of the table: a type of factors; by default that of positions or nodes.

        Returns
        -------
        ColumnSteps
            All steps.
        """
        return ColumnSteps({**self.tables, name: steps})

    def fit(self, tables: Mapping[Name, Table], categories: int = 0) -> ColumnSteps:
        """Return fitted steps, each fitted to the output of the previous steps.

        Parameters
        ----------
        tables : dict
            The rows of each table.
        categories : int, default 0
            The number of columns of positions or nodes, the last ones, that are categories.

        Returns
        -------
        ColumnSteps
            The fitted steps.
        """
        fitted: dict[Name, list[InputStep]] = {}
        for name in self.tables.keys() & tables.keys():
            own, table = fitted.setdefault(name, []), tables[name]._replace(categories=0 if name else categories)
            n_run = 0
            for step in self.of_table(name):
                for before in own[n_run:]:
                    table = table._replace(rows=before(table.rows, table.layout))
                n_run = len(own)
                own += step.fit(table)
        return ColumnSteps(fitted)

    def names(self, names: Sequence[str], name: Name = None) -> Sequence[str]:
        """Return the names of the columns of a table after all steps.

        Parameters
        ----------
        names : sequence of str
            The names before them.
        name : str, optional
            The name of the table: a type of factors; by default that of positions or nodes.

        Returns
        -------
        sequence of str
            The names.
        """
        for step in self.of_table(name):
            names = step.names(names)
        return names

    def n_columns(self, before: int, name: Name = None) -> int:
        """Return the number of columns of a table after all steps.

        Parameters
        ----------
        before : int
            The number before them.
        name : str, optional
            The name of the table: a type of factors; by default that of positions or nodes.

        Returns
        -------
        int
            The number.
        """
        return len(self.names([""] * before, name))

    def columns(self, chosen: Sequence[int], n_columns: int, name: Name = None) -> np.ndarray:
        """Return the indices of columns of a table after all steps.

        Parameters
        ----------
        chosen : sequence of int
            Places of columns.
        n_columns : int
            The number of columns before the steps.
        name : str, optional
            The name of the table: a type of factors; by default that of positions or nodes.

        Returns
        -------
        array (m,)
            Their places after the steps.
        """
        places = np.array(chosen, dtype=np.int64)
        for step in self.of_table(name):
            places, n_columns = step.columns(places, n_columns), len(step.names([""] * n_columns))
        return places

    def has_step(self, kind: type[InputStep]) -> bool:
        """Whether some table has a step of a kind.

        Parameters
        ----------
        kind : type
            A class of steps.

        Returns
        -------
        bool
            Whether there is one.
        """
        return any(isinstance(step, kind) for step in self._all)

    @property
    def reach(self) -> tuple[int, int]:
        """The number of rows before and after a row on which its columns depend."""
        before, after = zip((0, 0), *(step.reach for step in self.of_table()), strict=True)
        return sum(before), sum(after)

    @property
    def settings(self) -> dict[str, object]:
        """The parameter values that produce these steps."""
        return {name: value for step in self._all for name, value in step.setting.items()}

    @property
    def _all(self) -> Iterable[InputStep]:
        return chain.from_iterable(self.tables.values())

    def describe(self, name: Name = None) -> dict[str, object]:
        """Describe the steps of a table by plain values and arrays, for a model file.

        Parameters
        ----------
        name : str, optional
            The name of the table: a type of factors; by default that of positions or nodes.

        Returns
        -------
        dict
            The description.
        """
        return {key: value for step in self.of_table(name) for key, value in step.describe().items()}

    @classmethod
    def rebuild(cls, described: Mapping[Name, Mapping[str, Any]]) -> Self:
        """Rebuild the steps from the inputs of a model and of its factors.

        Parameters
        ----------
        described : dict
            The descriptions of all tables.

        Returns
        -------
        ColumnSteps
            The steps.
        """
        return cls({name: _rebuild_step(own, int(own["n_features"])) for name, own in described.items()})


def register_step(kind: Kind) -> Kind:
    """Register a class of steps under its setting, a parameter of estimators, and for model files.

    Parameters
    ----------
    kind : subclass of InputStep
        The class; ``entry`` is its name in files, ``setting`` the parameter that asks for it and its value.

    Returns
    -------
    type
        The class itself, so that this can be a decorator.

    Raises
    ------
    ValueError
        If a step of the package has that entry.

    See Also
    --------
    InputStep : What a step defines.

    Examples
    --------
    >>> from kernelfields.inputs import InputStep, register_step
    >>> @register_step
    ... class Squares(InputStep):  # it defines names, columns, describe, rebuild and how it is called, too
    ...     entry, setting = "squares", {"squares": True}
    >>> Squares.entry
    'squares'
    """
    if kind.entry in {getattr(kinds, name).entry for name in KINDS}:
        raise ValueError(f"{kind.entry!r} is the entry of a step that is there already: choose another one")
    _REGISTERED[kind.entry] = kind
    _note(kind.setting)
    return kind


def _note(setting: Mapping[str, object]) -> None:
    for name, value in setting.items():
        ASKING.setdefault(name, []).append(value)


for _setting in KINDS.values():
    _note(_setting)


def _find_kinds(settings: Mapping[str, object] | None = None) -> list[type[InputStep]]:
    """Return the classes of steps in their order: the classes with a setting, or all."""
    own = [name for name, setting in KINDS.items() if settings is None or setting.items() <= settings.items()]
    of_users = [kind for kind in _REGISTERED.values() if settings is None or kind.setting.items() <= settings.items()]
    before, last = [name for name in own if name != "Scale"], [name for name in own if name == "Scale"]
    return [*(getattr(kinds, name) for name in before), *of_users, *(getattr(kinds, name) for name in last)]


def _rebuild_step(described: Mapping[str, Any], n_columns: int) -> list[InputStep]:
    steps: list[InputStep] = []
    for kind in _find_kinds():
        if described.get(kind.entry) is not None and described[kind.entry] is not False:
            steps.append(kind.rebuild(described, n_columns))
            n_columns = len(steps[-1].names([""] * n_columns))
    return steps


def resolve_settings(settings: Mapping[str, object], own: Sequence[int] = ()) -> ColumnSteps:
    """Return the steps for positions or nodes by the parameters of an estimator."""
    return ColumnSteps({None: [step for kind in _find_kinds(settings) for step in kind.from_setting(own)]})
