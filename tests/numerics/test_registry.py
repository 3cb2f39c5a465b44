"""Classes are found by the names under which they are registered, and by nothing else."""

import pytest

from kernelfields.numerics.registry import Registry


@pytest.fixture
def shapes():
    """A registry, and two classes in it."""
    registry = Registry("shape")

    @registry.register("circle", shorthands={"unit circle": {"radius": 1.0}})
    class Circle:
        def __init__(self, radius=2.0):
            self.radius = radius

    @registry.register("polygon")
    class Polygon:
        undescribed = frozenset({"colour"})

        def __init__(self, corners, colour=None):
            self.corners = corners

    return registry, Circle, Polygon


def test_names_are_those_of_exactly_one_class(shapes):
    registry, Circle, Polygon = shapes
    assert registry.find("circle") is Circle
    assert registry.find("square") is registry.find(None) is registry.find(["circle"]) is None
    assert registry.find_name(Polygon(3)) == "polygon"

    class Ellipse(Circle):
        pass

    assert Circle() in registry
    assert Ellipse() not in registry
    with pytest.raises(TypeError, match=r"a shape of the class Ellipse has no name .*@register\('ellipse'\) above it"):
        registry.find_name(Ellipse())


def test_shorthands_are_names_of_objects_that_need_no_parameters(shapes):
    registry, _, _ = shapes
    assert registry.shorthands == ["unit circle", "circle"]
    assert registry.make("unit circle").radius == 1.0
    assert registry.make("circle").radius == 2.0


def test_descriptions_have_the_parameters_of_the_signature(shapes):
    registry, Circle, Polygon = shapes
    assert registry.read({"kind": "circle", "radius": 3.0}) == (Circle, {"radius": 3.0})
    assert registry.read({"kind": "polygon", "corners": 5}) == (Polygon, {"corners": 5})


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ("circle", "a shape is described by a mapping with the key 'kind', got 'circle'"),
        ({"kind": "os.system"}, "unknown kind of shape 'os.system'; known are circle, polygon"),
        ({"kind": "circle"}, r"a shape of kind 'circle' has the parameters \[radius\], got \[\]"),
        ({"kind": "polygon", "corners": 3, "colour": "red"}, r"\[corners\], got \[corners, colour\]"),
    ],
)
def test_wrong_descriptions_are_refused(shapes, description, message):
    with pytest.raises(ValueError, match=message):
        shapes[0].read(description)


def test_a_name_is_given_once_and_a_class_may_be_defined_again():
    registry = Registry("shape")

    def defined():
        @registry.register("circle")
        class Circle:
            pass

        return Circle

    first, second = defined(), defined()
    assert registry.find("circle") is second
    assert first() not in registry
    with pytest.raises(ValueError, match=r"there is a shape of the kind 'circle' already, .*Circle"):

        @registry.register("circle")
        class Ring:
            pass
