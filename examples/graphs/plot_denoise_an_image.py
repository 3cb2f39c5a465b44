"""
Taking the noise out of an image
================================

A field that was fitted to small tiles, exactly, cleans a large image. Pixel by
pixel every third label is wrong; the field has learnt that neighbours are
mostly alike, and its probabilities are low where it may err: along the shores.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter

from kernelfields import GraphCRF, GraphFactors
from kernelfields.data import grid_edges

plt.style.use("tableau-colorblind10")
random = np.random.default_rng(2)


def islands(rows, columns):
    """Sea and land, and what a bad camera sees of them: one number for each
    pixel.
    """
    land = (
        gaussian_filter(random.normal(size=(rows, columns)), 3, mode="wrap")
        > 0
    )
    return land.astype(int), land + 1.2 * random.normal(size=(rows, columns))


def as_graph(image):
    return image.reshape(-1, 1), grid_edges(*image.shape)


# %%
# Tiles of 8 by 8 are narrow enough for exact inference, so the fit ends with a
# certificate.
small = [
    (truth[:8, :8], seen[:8, :8])
    for truth, seen in (islands(48, 80) for _ in range(50))
]
field = GraphCRF(
    "linear", edges=GraphFactors(symmetric=True), prior_variance=1.0
)
field.fit(
    [as_graph(seen) for _, seen in small],
    [truth.ravel() for truth, _ in small],
)
print(field.inference_.description)
print(field.certificate_)
alike, different = field.edge_scores_["edge"][0]
print(f"two pixels that are alike gain {alike - different:.2f} nats")

# %%
# An image of 48 by 80 pixels is too wide for that: "auto" turns to
# tree-reweighted messages by itself.
truth, seen = islands(48, 80)
marginals = field.predict_marginals([as_graph(seen)])[0][:, 1].reshape(
    truth.shape
)
alone = GraphCRF("linear", prior_variance=1.0)
alone.fit(
    [(seen.reshape(-1, 1), []) for _, seen in small],
    [truth.ravel() for truth, _ in small],
)
one_by_one = alone.predict([(seen.reshape(-1, 1), [])])[0].reshape(truth.shape)

# %%
wrong = np.mean((marginals > 0.5) != truth)
images = {
    "what is there": truth,
    "what is seen": seen,
    f"pixel by pixel: {np.mean(one_by_one != truth):.0%} wrong": one_by_one,
    f"probability of land: {wrong:.0%} wrong": marginals,
}
figure, panels = plt.subplots(2, 2, figsize=(9, 5.8), layout="constrained")
for panel, (title, image) in zip(panels.ravel(), images.items(), strict=True):
    panel.imshow(image, cmap="gray" if image is seen else "YlGnBu_r")
    panel.set(title=title, xticks=[], yticks=[])
plt.show()
