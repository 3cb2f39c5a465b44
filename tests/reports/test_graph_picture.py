"""Pictures of labelled graphs: a mark for every node and edge, grids as cells, mistakes framed, names escaped."""

import json
import sys

import numpy as np
import pytest
from parsed_pages import SVG, ParsedPage, box_of, drawn_by, picture_in

from kernelfields.data import grid_edges
from kernelfields.reports import LabelledGraph
from kernelfields.reports.graph_pictures import layout


def graph(n_nodes, edges, classes=("a", "b", "c"), seed=0, **options):
    marginals = np.random.default_rng(seed).dirichlet(np.ones(len(classes)), size=n_nodes)
    labels = [classes[code] for code in marginals.argmax(axis=1)]
    return LabelledGraph(labels, marginals, list(classes), edges=edges, **options)


def drawn(shown):
    return picture_in(shown._repr_html_())


def nodes_of(picture):
    """Marks of nodes; the first collection is the paper below them."""
    return drawn_by(picture, "PathCollection", 2)


TREE = np.array([[node, (node - 1) // 2] for node in range(1, 15)])


def test_nodes_edges_and_mistakes_each_have_a_mark():
    shown = graph(15, {"edge": TREE})
    truth = list(shown.labels)
    truth[3] = next(label for label in "abc" if label != truth[3])
    shown = graph(15, {"edge": TREE}, truth=truth)
    picture = drawn(shown)
    assert len(nodes_of(picture)) == 15
    assert len(drawn_by(picture, "LineCollection")) == 14
    assert [each.text for each in picture.iter(SVG + "text")].count("✗") == 1
    assert picture.find(SVG + "title").text == "15 nodes, 14 edges, 93.3 % right"


@pytest.mark.parametrize(("rows", "columns", "connectivity"), [(4, 6, 4), (4, 6, 8), (2, 2, 4), (5, 3, 8)])
@pytest.mark.parametrize("by_direction", [True, False])
def test_grids_are_images_of_cells(rows, columns, connectivity, by_direction):
    edges = grid_edges(rows, columns, connectivity, by_direction)
    shown = graph(rows * columns, edges if by_direction else {"edge": edges[:, ::-1]})
    assert shown.grid_shape() == (rows, columns)
    cells = np.array([box_of(cell) for cell in drawn_by(drawn(shown), "PolyCollection")])
    places, size = cells[:, :2], cells[0, 2]
    np.testing.assert_allclose(cells[:, 2:], size, atol=0.02)
    expected = np.array([[v % columns, v // columns] for v in range(rows * columns)]) * size
    np.testing.assert_allclose(places - places[0], expected, atol=0.05)


def test_what_is_no_grid_is_not_taken_for_one():
    edges = grid_edges(3, 4)
    assert graph(12, {"edge": edges[1:]}).grid_shape() is None
    assert graph(12, {"edge": np.vstack([edges, [[0, 11]]])}).grid_shape() is None
    assert graph(15, {"edge": TREE}).grid_shape() is None
    assert graph(3, {"triple": np.array([[0, 1, 2]])}).grid_shape() is None
    assert graph(2, {}).grid_shape() is None


def test_the_truth_of_a_grid_stands_beside_it():
    shown = graph(12, {"edge": grid_edges(3, 4)}, truth=["a"] * 12)
    picture = drawn(shown)
    predicted, missed, true = (drawn_by(picture, "PolyCollection", number) for number in (1, 2, 3))
    assert (len(predicted), len(missed), len(true)) == (12, shown.wrong.sum(), 12)


def test_neighbours_are_a_unit_apart_and_components_beside_each_other():
    places, hint = layout(6, [np.array([[0, 1], [1, 2], [3, 4]])])
    assert hint == ""
    np.testing.assert_allclose(np.linalg.norm(places[[0, 1, 3]] - places[[1, 2, 4]], axis=1), 1.0, atol=0.02)
    assert np.linalg.norm(places[0] - places[2]) == pytest.approx(2.0, abs=0.05)
    assert places[[0, 1, 2], 0].max() < places[[3, 4], 0].min() < places[5, 0]
    np.testing.assert_array_equal(places, layout(6, [np.array([[0, 1], [1, 2], [3, 4]])])[0])
    cycle, _ = layout(8, [np.array([[v, (v + 1) % 8] for v in range(8)])])
    apart = np.linalg.norm(cycle - cycle.mean(axis=0), axis=1)
    np.testing.assert_allclose(apart, apart.mean(), rtol=0.05)


def test_large_components_are_laid_out_by_springs():
    ring = np.array([[v, (v + 1) % 250] for v in range(250)])
    places, _ = layout(250, [ring])
    lengths = np.linalg.norm(places - np.roll(places, -1, axis=0), axis=1)
    assert lengths.mean() == pytest.approx(1.0)
    assert len(nodes_of(drawn(graph(250, {"edge": ring})))) == 250


def test_without_networkx_nodes_stand_on_a_circle_and_the_legend_mentions_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    places, _ = layout(12, [np.array([[0, 1]])])
    np.testing.assert_allclose(np.linalg.norm(places, axis=1), np.linalg.norm(places[0]))
    shown = graph(15, {"edge": TREE})
    assert len(drawn_by(drawn(shown), "LineCollection")) == 14
    assert "nodes on a circle: with networkx they follow their edges" in ParsedPage(shown._repr_html_()).text


def test_nodes_are_drawn_where_the_user_says():
    places = np.array([[0.0, 0.0], [10.0, 0.0], [10.0, 5.0]])
    nodes = nodes_of(drawn(graph(3, {"edge": np.array([[0, 1], [1, 2]])}, positions=places)))
    found = np.array([[float(node.get("x")), float(node.get("y"))] for node in nodes])
    np.testing.assert_allclose((found - found[0]) / (found[1, 0] - found[0, 0]), places / 10, atol=1e-3)


def test_larger_factors_are_joined_in_their_middle():
    picture = drawn(graph(4, {"triple": np.array([[0, 1, 2]]), "edge": np.array([[2, 3]])}))
    assert [len(drawn_by(picture, "LineCollection", number)) for number in (1, 2)] == [3, 1]


def test_large_graphs_are_cells_in_their_order():
    random = np.random.default_rng(0)
    shown = graph(500, {"edge": random.integers(500, size=(600, 2))})
    assert len(drawn_by(drawn(shown), "PolyCollection")) == 500
    assert "edges are not drawn" in ParsedPage(shown._repr_html_()).text


def test_text_and_plain_values():
    shown = LabelledGraph([1, 0], [[0.25, 0.75], [0.5, 0.5]], [0, 1], ["u", "v"], edges={"edge": [[0, 1]]})
    assert str(shown).splitlines() == ["u  1  0.750", "v  0  0.500"]
    short_label = json.loads(json.dumps(shown.to_dict()))
    assert short_label["edges"] == {"edge": [[0, 1]]}
    assert [node["token"] for node in short_label["nodes"]] == ["u", "v"]


def test_what_does_not_fit_is_named():
    with pytest.raises(ValueError, match="edges of 'edge' must be rows of nodes from 0 to 2"):
        graph(3, {"edge": [[0, 3]]})
    with pytest.raises(ValueError, match="positions must be 3 rows of two finite numbers"):
        graph(3, {"edge": [[0, 1]]}, positions=np.zeros((2, 2)))
