"""The negative log-posterior, its derivatives, and certificates of optimality."""

from kernelfields.engines import add_scaled, dot
from kernelfields.posterior.certificate import Certificate
from kernelfields.posterior.lines import Line
from kernelfields.posterior.log_posterior import LogPosterior
from kernelfields.posterior.lower_bound import LowerBound
from kernelfields.posterior.points import Block, Direction, Point

__all__ = ["Block", "Certificate", "Direction", "Line", "LogPosterior", "LowerBound", "Point", "add_scaled", "dot"]
