"""Where the sums over sequences run."""

from kernelfields.engines.chain_layout import ChainLayout
from kernelfields.engines.clique_features import CliqueFeatures
from kernelfields.engines.dask_engine import Dask
from kernelfields.engines.engine import Engine, PanelRequest, Threads
from kernelfields.engines.feature_origin import FeatureOrigin
from kernelfields.engines.graph_layout import GraphLayout
from kernelfields.engines.graph_likelihood import GraphLikelihood
from kernelfields.engines.likelihood import ChainLikelihood, Evaluation, Likelihood
from kernelfields.engines.placement import Placement
from kernelfields.engines.potentials import Potentials
from kernelfields.engines.threads import ThreadsEngine
from kernelfields.engines.torch_engine import Torch
from kernelfields.engines.vectors import add_scaled, dot

__all__ = [
    "ChainLayout",
    "ChainLikelihood",
    "CliqueFeatures",
    "Dask",
    "Engine",
    "Evaluation",
    "FeatureOrigin",
    "GraphLayout",
    "GraphLikelihood",
    "Likelihood",
    "PanelRequest",
    "Placement",
    "Potentials",
    "Threads",
    "ThreadsEngine",
    "Torch",
    "add_scaled",
    "dot",
]
