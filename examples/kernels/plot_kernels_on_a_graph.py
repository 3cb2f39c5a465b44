"""
Kernels on the nodes of a graph
===============================

How alike is each node of a graph to the one marked by a star? Heat that spreads for a short time stays near; for a long
time, or by the inverse Laplacian, it fills the room it is in, and hardly passes through the narrow door.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection
from scipy.spatial import Delaunay
from scipy.sparse import csr_array

from kernelfields.kernels import GraphDiffusion, GraphLaplacian, Normalized

plt.style.use(["tableau-colorblind10", {"axes.spines.top": False, "axes.spines.right": False}])
random = np.random.default_rng(1)
places = random.random((450, 2)) * [3.0, 1.5]
wall = (np.abs(places[:, 0] - 1.6) < 0.12) & (np.abs(places[:, 1] - 0.75) > 0.12)
places = places[~wall]

# %%
# Neighbours in a triangulation are joined unless they are far from each other or on two sides of the wall. A kernel on
# nodes takes the adjacency matrix, and its inputs are the numbers of nodes.
corners = Delaunay(places).simplices
pairs = np.unique(np.sort(np.vstack([corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [2, 0]]]), axis=1), axis=0)
pairs = pairs[np.linalg.norm(places[pairs[:, 0]] - places[pairs[:, 1]], axis=1) < 0.25]
graph = csr_array((np.ones(len(pairs)), pairs.T), shape=(len(places), len(places)))
graph = graph + graph.T
nodes = np.arange(len(places))[:, None]
star = int(np.argmin(np.linalg.norm(places - [1.15, 0.5], axis=1)))
kernels = {
    "GraphDiffusion, time 10": GraphDiffusion(graph, time=10.0),
    "GraphDiffusion, time 100": GraphDiffusion(graph, time=100.0),
    "GraphLaplacian, eps 0.001": GraphLaplacian(graph, eps=0.001),
}

# %%
# Normalized, every node is as like itself as any other, and the map shows correlations.
figure, panels = plt.subplots(1, 3, figsize=(12, 2.9), layout="constrained")
for panel, (name, kernel) in zip(panels, kernels.items(), strict=True):
    alike = Normalized(kernel)(nodes, [[star]])[:, 0]
    panel.add_collection(LineCollection(places[pairs], color="0.85", lw=0.6, zorder=0))
    shown = panel.scatter(*places.T, c=alike, s=24, cmap="Blues", vmin=-0.2, vmax=1)
    panel.plot(*places[star], "*", ms=16, color="C1", mec="black")
    panel.set(title=name, xticks=[], yticks=[], aspect="equal")
    panel.spines[:].set_visible(False)
figure.colorbar(shown, ax=panels, label="correlation with the star", boundaries=np.linspace(0, 1, 101), ticks=[0, 1])
plt.show()
