"""Where the sums over sequences run."""

from kernelfields.engines.likelihood import ChainLikelihood, Evaluation
from kernelfields.engines.potentials import Potentials
from kernelfields.engines.threads import CliqueFeatures, ThreadsEngine

__all__ = ["ChainLikelihood", "CliqueFeatures", "Evaluation", "Potentials", "ThreadsEngine"]
