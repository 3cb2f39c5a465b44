"""Objects that are their parameters behave as those of scikit-learn's BaseEstimator do."""

import pickle

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, clone

from kernelfields.numerics.registry import Parametrized, has_defaults, parameter_defaults


class Ours(Parametrized):
    shared = frozenset({"table"})

    def __init__(self, b=1.0, a=None, *, table=None):
        self.b = b
        self.a = a
        self.table = table


class Theirs(BaseEstimator):
    def __init__(self, b=1.0, a=None, *, table=None):
        self.b = b
        self.a = a
        self.table = table


def both(**parameters):
    return Ours(**parameters), Theirs(**parameters)


@pytest.mark.parametrize("deep", [False, True])
def test_parameters_are_listed_in_the_order_of_scikit_learn(deep):
    ours, theirs = both(b=2.0, a=Theirs(3.0))
    assert list(ours.get_params(deep).items()) == list(theirs.get_params(deep).items())


def test_parameters_are_set_at_any_depth():
    ours, theirs = Ours(a=Ours(a=Theirs())), Theirs(a=Theirs(a=Theirs()))
    changes = {"b": 2.0, "a__b": 3.0, "a__a__b": 4.0}
    assert ours.set_params(**changes) is ours
    theirs.set_params(**changes)
    assert [ours.get_params()[name] for name in changes] == [theirs.get_params()[name] for name in changes]
    replaced = Ours().set_params(a=Ours(), a__b=5.0)
    assert replaced.a.b == 5.0


def test_an_unknown_parameter_is_named_as_scikit_learn_names_it():
    messages = []
    for kind in both():
        with pytest.raises(ValueError, match="Invalid parameter 'c'") as caught:
            kind.set_params(c__d=1)
        messages.append(str(caught.value).replace("Theirs", "Ours"))
    assert messages[0] == messages[1]


def test_clones_are_equal_and_copy_what_is_not_shared():
    original = Ours([1, 2], Ours(3.0), table=np.eye(2))
    copy = clone(original)
    assert copy == original
    assert copy.b is not original.b
    assert copy.a is not original.a
    assert copy.table is original.table
    assert pickle.loads(pickle.dumps(original)) == original


@pytest.mark.parametrize("parameters", [{}, {"b": 2.0}, {"b": [1.0, "x"], "a": 3}], ids=repr)
@pytest.mark.parametrize("changed_only", [True, False])
def test_representations_are_those_of_scikit_learn(parameters, changed_only):
    ours, theirs = both(**parameters)
    with config_context(print_changed_only=changed_only):
        assert repr(ours) == repr(theirs).replace("Theirs", "Ours")


def test_large_parameters_are_shown_by_their_shape():
    assert repr(Ours(table=np.eye(3))) == "Ours(table of shape (3, 3))"
    assert repr(Ours(table=[[1.0]])) == "Ours(table=...)"
    assert len(repr(Ours("x" * 1000))) <= 703


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (np.eye(2), [[1.0, 0.0], [0.0, 1.0]], True),
        (1.0, np.float32(1.0), True),
        ("a", "b", False),
    ],
)
def test_equal_parameters_make_equal_objects(left, right, same):
    assert (Ours(left) == Ours(right)) is same
    assert not same or hash(Ours(left)) == hash(Ours(right))


def test_defaults_come_from_the_signature():
    class Needed(Parametrized):
        def __init__(self, first, second=2, **others):
            self.first, self.second = first, second

    class Nothing(Parametrized):
        pass

    class Listed(Parametrized):
        def __init__(self, *items):
            self.items = items

    assert list(parameter_defaults(Needed)) == ["first", "second"]
    assert not has_defaults(Needed)
    assert has_defaults(Ours)
    assert parameter_defaults(Nothing) == {}
    with pytest.raises(TypeError, match=r"Listed: parameters must be named .* without \*args"):
        Listed(1).get_params()
