"""Parameters of estimators, declared once: name, type, default and check stand in one line of the class.

    @declares_parameters
    class KernelCRF(FieldEstimator):
        kernel: KernelLike = parameter("auto", first=True)
        rank: int | None = parameter(1000, count_or_none)

``declares_parameters`` writes ``__init__``, keyword-only but for the ``first`` ones, which stores values untouched.
``check_declared`` runs the checks before a fit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, dataclass_transform

from kernelfields.numerics.parameters import check_choice, check_count, check_prior_variance, check_prior_variances
from kernelfields.numerics.windows import check_window

#: Raises for a value, called by the name of its parameter.
Check = Callable[[Any, str], object]
Class = TypeVar("Class", bound=type)


def parameter(default: object, check: Check | None = None, *, first: bool = False) -> Any:
    """Declare a parameter of an estimator; ``first`` ones may be passed by position."""
    return dataclasses.field(default=default, kw_only=not first, metadata={"check": check})


def attribute() -> Any:
    """Declare an attribute that a fit sets, or that derived classes may have as a parameter."""
    return dataclasses.field(init=False)


@dataclass_transform(eq_default=False, field_specifiers=(parameter, attribute))
def declares_parameters(cls: Class) -> Class:
    """Write ``__init__`` of an estimator from its declared parameters, those of its bases first.

    A class that has ``_parameters_declared`` is notified by a call of it.
    """
    dataclasses.dataclass(eq=False, repr=False)(cls)
    getattr(cls, "_parameters_declared", lambda: None)()
    return cls


def check_declared(instance: object) -> None:
    """Raise if a declared parameter of an estimator cannot be used."""
    for declared in dataclasses.fields(instance):  # type: ignore[arg-type]  # the decorator makes it a dataclass
        check = declared.metadata.get("check")
        if check is not None:
            check(getattr(instance, declared.name), declared.name)


def one_of(*choices: object) -> Check:
    """Return a check for one of some values."""
    return lambda value, name: check_choice(value, name, choices)


def or_none(check: Check) -> Check:
    """Return a check that passes None."""
    return lambda value, name: None if value is None else check(value, name)


def window_of_inputs(value: Any, name: str) -> None:
    """Raise ValueError unless a value is a window of inputs."""
    check_window(value)


#: A whole number of at least one, or None for no limit.
count_or_none: Check = or_none(partial(check_count, otherwise=" (or None for no limit)"))
#: One prior variance, or "auto".
variance_or_auto: Check = partial(check_prior_variance, auto=True)
#: A prior variance, a tuple of them, or "auto".
variances_or_auto: Check = partial(check_prior_variances, auto=True)
