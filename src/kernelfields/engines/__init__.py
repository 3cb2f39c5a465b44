"""Where the sums over sequences run."""

from kernelfields.engines.clique_features import CliqueFeatures
from kernelfields.engines.likelihood import ChainLikelihood, Evaluation
from kernelfields.engines.potentials import Potentials
from kernelfields.engines.threads import ThreadsEngine
from kernelfields.engines.vectors import add_scaled, dot

__all__ = ["ChainLikelihood", "CliqueFeatures", "Evaluation", "Potentials", "ThreadsEngine", "add_scaled", "dot"]
