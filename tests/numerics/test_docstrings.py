"""Docstrings of classes have what their bases explain of parameters and attributes."""

import pytest
from numpydoc.docscrape import ClassDoc

from kernelfields import ChainCRF, RingCRF, SegmentCRF
from kernelfields.numerics.parameters import declares_parameters, parameter


@declares_parameters
class Field:
    """A field.

    Parameters
    ----------
    rank : int, default 3
        The rank.
    tol : float, default 0.1
        The tolerance.

    Attributes
    ----------
    coef_ : ndarray
        The coefficients.
    """

    __module__ = "kernelfields.numerics.docstrings"

    rank: int = parameter(3)
    tol: float = parameter(0.1)


@declares_parameters
class Chain(Field):
    """A chain.

    It has two ends.

    Parameters
    ----------
    kernel : str, default "rbf"
        The kernel.
    tol : float, default 0.2
        The tolerance of chains.

    Examples
    --------
    >>> Chain().tol
    0.2
    """

    __module__ = "kernelfields.numerics.docstrings"

    kernel: str = parameter("rbf", first=True)
    tol: float = parameter(0.2)


def sections(cls):
    return ClassDoc(cls, config={"show_class_members": False})


def test_parameters_stand_in_the_order_of_the_signature():
    assert [each.name for each in sections(Chain)["Parameters"]] == ["kernel", "rank", "tol"]


def test_the_nearest_class_has_the_word():
    explained = [each.desc for each in sections(Chain)["Parameters"]]
    assert explained == [["The kernel."], ["The rank."], ["The tolerance of chains."]]


def test_attributes_of_bases_are_there():
    assert [each.name for each in sections(Chain)["Attributes"]] == ["coef_"]


def test_what_stands_around_stays():
    found = sections(Chain)
    assert found["Summary"] == ["A chain."]
    assert found["Extended Summary"] == ["It has two ends."]
    assert found["Examples"] == [">>> Chain().tol", "0.2"]


def test_a_docstring_that_says_all_is_left_as_it_is():
    before = Chain.__doc__
    declares_parameters(Chain)
    assert Chain.__doc__ == before


@pytest.mark.parametrize("estimator", [ChainCRF, RingCRF, SegmentCRF])
def test_estimators_explain_all_of_their_parameters(estimator):
    explained = [each.name for each in sections(estimator)["Parameters"]]
    assert sorted(explained) == sorted(estimator().get_params(deep=False))
