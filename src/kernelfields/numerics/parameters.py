"""Parameters of estimators: declared once, and checked before a fit.

Name, type, default and check of a parameter stand in one line of the class:

    @declares_parameters
    class KernelCRF(FieldEstimator):
        kernel: KernelLike = parameter("auto", first=True)
        rank: int | None = parameter(1000, count_or_none)

``declares_parameters`` writes ``__init__``, keyword-only but for the ``first`` ones, which stores values untouched.
``check_declared`` runs the checks before a fit. Raises ValueError or TypeError naming the parameter, its value and what
is allowed.

A parameter that data choose is declared with what stands for "auto" where nothing is chosen, and, if it is chosen among
a few values, with these:

    l1: float | str = parameter("auto", or_auto(check_penalty), usual=0.0, tried=(0.1, 0.0))

Some values of others leave settings to the data that are no parameters, such as thresholds:

    decode: str = parameter("auto", check_one("auto", "f1"), learnt=("f1",))

``get_open_parameters`` names those that are "auto" in an estimator, ``set_open_parameters`` gives them values, and
``with_usual_values`` returns a copy in which none is. ``resolve_open`` does so for one parameter alone.
``should_learn_settings`` says whether there are settings beside parameters.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, TypeGuard, TypeVar, dataclass_transform

import numpy as np

from kernelfields.numerics.docstrings import complete_docstring

# Below, 1 / variance is infinite.
_LEAST_VARIANCE = float(np.finfo(np.float64).tiny)


def is_whole(value: object) -> TypeGuard[int]:
    """Whether value is an integer; True and False are not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_sequence(values: object) -> TypeGuard[Any]:
    """Whether values have a length and numbered items; text and mappings are excluded."""
    text_or_table = isinstance(values, str | bytes | Mapping)
    return hasattr(values, "__len__") and hasattr(values, "__getitem__") and not text_or_table


def is_real(value: object) -> TypeGuard[float]:
    """Whether value is a real number; True and False are not."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def is_auto(value: object) -> bool:
    """Whether a parameter is "auto"."""
    return isinstance(value, str) and value == "auto"


def check_choice(value: object, name: str, choices: Sequence[object]) -> None:
    """Raise unless ``value`` is one of the choices."""
    if not any(value is each or (isinstance(value, str) and value == each) for each in choices):
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")


def resolve_open(value: Any, usual: Any) -> Any:
    """Return the value of a parameter, or the default for "auto"."""
    return usual if is_auto(value) else value


def check_prior_variance(value: object, name: str) -> None:
    """Raise unless ``value`` is a positive number; infinity means no Gaussian prior."""
    if not is_real(value) or not value >= _LEAST_VARIANCE:
        raise ValueError(f"{name} must be a positive number (inf for no Gaussian prior), got {value!r}")


def check_prior_variances(values: object, name: str) -> None:
    """Raise unless ``values`` is a prior variance, or one for each summand of a kernel."""
    if not isinstance(values, list | tuple):
        check_prior_variance(values, name)
    elif not values:
        raise ValueError(f"{name} holds no number: give one, or one for each part of a sum of kernels")
    else:
        for value in values:
            check_prior_variance(value, name)


def check_penalty(value: object, name: str) -> None:
    """Raise unless ``value`` is a finite number >= 0."""
    if not is_real(value) or not 0 <= value < np.inf:
        raise ValueError(f"{name} must be a finite number of at least 0, got {value!r}")


def check_support(value: object, name: str) -> None:
    """Raise unless ``value`` names a support, or is the least total weight of observed pairs."""
    if is_real(value) and 0 < value < np.inf:
        return
    if not isinstance(value, str) or value not in ("all", "observed"):
        raise ValueError(
            f"{name} must be 'all', 'observed', or a number above zero, the least total weight of a pair in training, "
            f"got {value!r}"
        )


def check_window(window: object, name: str = "window") -> tuple[int, int]:
    """Return the numbers of neighbours in a window of inputs.

    Parameters
    ----------
    window : odd int or (before, after)
        The window.
    name : str, default "window"
        What messages call it.

    Returns
    -------
    tuple of int
        The numbers of positions before and after.

    Raises
    ------
    ValueError
        If it is no window.

    Examples
    --------
    >>> from kernelfields.features import check_window
    >>> check_window(5)
    (2, 2)
    """
    expected = f"{name} must be an odd positive whole number or a pair (before, after)"
    if is_whole(window):
        if window < 1 or window % 2 == 0:
            advice = f"; for {window} positions use ({window // 2}, {window // 2 - 1})" if window > 0 else ""
            raise ValueError(f"{expected}, got {window}{advice}")
        return int(window) // 2, int(window) // 2
    if not isinstance(window, tuple | list) or len(window) != 2 or not all(map(is_whole, window)):
        raise ValueError(f"{expected}, got {window!r}")
    before, after = window
    if before < 0 or after < 0:
        raise ValueError(f"{expected} of counts that are not negative, got {window!r}")
    return int(before), int(after)


def check_count(value: object, name: str, otherwise: str = "", *, least: int = 1) -> None:
    """Raise unless ``value`` is an integer >= ``least``; ``otherwise`` names other allowed values."""
    if not is_whole(value) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}{otherwise}, got {value!r}")


def check_verbosity(value: object, name: str) -> None:
    """Raise unless ``value`` is "auto" or a level of messages: 0, 1, 2, or a truth value."""
    if not isinstance(value, bool) and not is_auto(value):
        check_count(value, name, " or a truth value", least=0)


def check_tolerance(tol: object) -> None:
    """Raise unless ``tol`` is a valid relative gap."""
    if not is_real(tol) or not 0 < tol < np.inf:
        raise ValueError(f"tol must be a positive relative gap, such as 1e-3, got {tol!r}")


def check_callbacks(callbacks: object) -> list[Callable]:
    """Return the callbacks as a list; None means none."""
    if callbacks is None:
        return []
    if not isinstance(callbacks, list | tuple) or not all(map(callable, callbacks)):
        raise TypeError(f"callbacks must be a list of functions of one Iteration, got {callbacks!r}")
    return list(callbacks)


def resolve_dtype(dtype: object) -> np.dtype | None:
    """Return float32 or float64 as a dtype, None for "auto"."""
    if isinstance(dtype, str) and dtype == "auto":
        return None
    try:
        name = "" if dtype is None else np.dtype(dtype).name  # type: ignore[call-overload]  # numpy reads None as float64
    except TypeError:
        name = ""
    if name not in ("float32", "float64"):
        raise ValueError(f"dtype must be 'auto', 'float32' or 'float64', got {dtype!r}")
    return np.dtype(name)


#: Raises for a value, called by the name of its parameter.
Check = Callable[[Any, str], object]
Class = TypeVar("Class", bound=type)
Instance = TypeVar("Instance")


# The default of a declaration that is no value of a parameter.
_NEVER_OPEN = object()


def parameter(
    default: object,
    check: Check | None = None,
    *,
    first: bool = False,
    usual: object = _NEVER_OPEN,
    tried: Sequence[object] = (),
    learnt: Sequence[str] = (),
    short: object = dataclasses.MISSING,
    nested: Callable[[], Any] | None = None,
) -> Any:
    """Declare a parameter of an estimator; ``first`` parameters may be passed by position.

    ``usual`` stands for "auto" where nothing is chosen by the data, and ``tried`` are the values to choose from. With
    one of the values ``learnt`` a fit learns settings that are no parameters. ``short`` is the value in short fits to a
    part of the data. ``nested`` makes the object that None stands for, which has parameters of its own.
    """
    metadata = {"check": check, "usual": usual, "tried": tried, "learnt": learnt, "short": short, "nested": nested}
    return dataclasses.field(default=default, kw_only=not first, metadata=metadata)


def attribute(default: Any = dataclasses.MISSING, *, reset: Any = dataclasses.MISSING) -> Any:
    """Declare an attribute set by a fit, or by derived classes as a parameter.

    ``default`` is its value if neither has set it, ``reset`` its value after each fit, until an answer changes it.
    """
    return dataclasses.field(
        init=False, default=default, metadata={} if reset is dataclasses.MISSING else {"reset": reset}
    )


def get_declared_values(instance: Any, purpose: str) -> dict[str, Any]:
    """Return the values that are declared for a purpose, "reset" after a fit or a "short" fit, by name."""
    declared, never = dataclasses.fields(instance), dataclasses.MISSING
    return {each.name: each.metadata[purpose] for each in declared if each.metadata.get(purpose, never) is not never}


@dataclass_transform(eq_default=False, field_specifiers=(parameter, attribute))
def declares_parameters(cls: Class) -> Class:
    """Add an ``__init__`` for the declared parameters of an estimator, parameters of its bases first.

    Its docstring then has what its bases say of theirs.

    A class that has ``_parameters_declared`` is notified by a call of it.
    """
    dataclasses.dataclass(eq=False, repr=False)(cls)
    complete_docstring(cls)
    getattr(cls, "_parameters_declared", lambda: None)()
    return cls


def check_declared(instance: object, prefix: str = "") -> None:
    """Raise if a declared parameter of an estimator is invalid; ``prefix`` goes before its name in messages.

    Defaults can always be used, and are not checked.
    """
    for declared in dataclasses.fields(instance):  # type: ignore[arg-type]  # the decorator makes it a dataclass
        check = declared.metadata.get("check")
        if check is not None and (value := getattr(instance, declared.name)) is not declared.default:
            check(value, prefix + declared.name)


def get_open_parameters(instance: Any) -> dict[str, Sequence[Any]]:
    """Return the "auto" parameters of an estimator by name, with the values to try."""
    return {
        declared.name: declared.metadata["tried"]
        for declared in dataclasses.fields(instance)
        if declared.metadata.get("usual", _NEVER_OPEN) is not _NEVER_OPEN and is_auto(getattr(instance, declared.name))
    }


def should_learn_settings(instance: Any) -> bool:
    """Whether a fit of an estimator learns settings that are no parameters."""
    declared = dataclasses.fields(instance)
    return any(
        getattr(instance, each.name) in each.metadata["learnt"] for each in declared if each.metadata.get("learnt")
    )


def with_values(instance: Instance, values: Mapping[str, object]) -> Instance:
    """Return a copy of an estimator with other values of parameters."""
    copied = copy.copy(instance)
    for name, value in values.items():
        setattr(copied, name, value)
    return copied


def with_usual_values(instance: Instance) -> Instance:
    """Return a copy of an estimator with default values for "auto" parameters."""
    copied, usual = copy.copy(instance), {each.name: each.metadata for each in dataclasses.fields(instance)}  # type: ignore[arg-type]
    for name in get_open_parameters(instance):
        setattr(copied, name, usual[name]["usual"])
    return copied


def set_open_parameters(instance: object, values: Mapping[str, object]) -> None:
    """Set the "auto" parameters of an estimator to values."""
    for name in get_open_parameters(instance).keys() & values:
        setattr(instance, name, values[name])


def set_nested(instance: Any, settings: Mapping[str, object]) -> dict[str, object]:
    """Prepare ``name__inner`` for parameters that may be None or dicts; return the remaining settings.

    The object that None stands for takes its place. Objects in a dict get the settings, all of them.
    """
    left = dict(settings)
    for declared in dataclasses.fields(instance) if dataclasses.is_dataclass(instance) else ():
        name, nested = declared.name, declared.metadata.get("nested")
        inner = {key: value for key, value in settings.items() if key.startswith(f"{name}__")}
        if nested is None or not inner or name in settings:
            continue
        if (value := getattr(instance, name)) is None:
            setattr(instance, name, nested())
        elif isinstance(value, Mapping):
            for each in value.values():
                each.set_params(**{key.removeprefix(f"{name}__"): own for key, own in inner.items()})
            left = {key: own for key, own in left.items() if key not in inner}
    return left


def check_one(*choices: object) -> Check:
    """Return a check for one of some values."""
    return lambda value, name: check_choice(value, name, choices)


def or_none(check: Check) -> Check:
    """Return a check that accepts None, too."""
    return lambda value, name: None if value is None else check(value, name)


def or_auto(check: Check) -> Check:
    """Return a check that accepts "auto", too."""
    return lambda value, name: None if is_auto(value) else check(value, name)


def or_named(check: Check, names: Sequence[Sequence[str]], otherwise: str) -> Check:
    """Return a check that accepts the names of some lists, which may grow; ``otherwise`` describes other values."""

    def checked(value: object, name: str) -> None:
        if not isinstance(value, str):
            check(value, name)
        elif value not in (known := [*chain(*names)]):
            raise ValueError(f"{name} must be {', '.join(map(repr, known))}, {otherwise}, got {value!r}")

    return checked


#: A whole number of at least one, or None for no limit.
count_or_none: Check = or_none(partial(check_count, otherwise=" (or None for no limit)"))
#: One prior variance, or "auto".
variance_or_auto: Check = or_auto(check_prior_variance)
#: A prior variance, a tuple of them, or "auto".
variances_or_auto: Check = or_auto(check_prior_variances)
