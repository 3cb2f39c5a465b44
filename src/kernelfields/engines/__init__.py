"""Where the sums over sequences run."""

from kernelfields.engines.potentials import Potentials
from kernelfields.engines.threads import CliqueFeatures, Evaluation, ThreadsEngine

__all__ = ["CliqueFeatures", "Evaluation", "Potentials", "ThreadsEngine"]
