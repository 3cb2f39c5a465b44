"""Closed chains: the last label is a neighbour of the first."""

from __future__ import annotations

from dataclasses import dataclass

from kernelfields.data.border_cliques import EndCliques, StartCliques
from kernelfields.data.chains import Chains
from kernelfields.data.readers import InputReader
from kernelfields.estimators.chain_crf import ChainCRF
from kernelfields.inference.ring import Rings
from kernelfields.inputs.step import STATISTICS
from kernelfields.numerics.parameters import declares_parameters
from kernelfields.structures.chains import ChainStructure


class RingReader(InputReader):
    """Reader of sequences that closes them to rings."""

    packs = Rings


@dataclass(frozen=True, eq=False)
class RingStructure(ChainStructure):
    """Labels of the positions of rings, whose ends are neighbours."""

    kind = "ring"
    reads = RingReader

    def count_sequential_steps(self, data: Chains) -> int:
        return 0  # rings are inferred on threads

    def check(self) -> None:
        super().check()
        if self.settings.window == STATISTICS:
            raise ValueError(
                "windows end where a sequence does, and a ring has no end: window must be a number or a pair"
            )
        for clique in self.described_cliques():
            if isinstance(clique, StartCliques | EndCliques):
                raise ValueError(f"a ring has no first and no last label: leave out {clique!r}")


@declares_parameters
class RingCRF(ChainCRF):
    """Conditional random field on rings: sequences whose last position is followed by the first.

    Answers are those of :class:`ChainCRF`, and do not depend on where a ring is cut open. docs/rings.md.

    See Also
    --------
    ChainCRF : Fields on sequences with two ends.

    Examples
    --------
    >>> from kernelfields import RingCRF
    >>> X = [[{"corner": 1.0}, {"side": 1.0}, {"corner": 1.0}, {"side": 1.0}]]
    >>> crf = RingCRF(prior_variance=10.0, random_state=0).fit(X, [["turn", "go", "turn", "go"]])
    >>> crf.predict([[{"side": 1.0}, {"corner": 1.0}]])
    [['go', 'turn']]
    """

    _kind = "RingCRF"
    _structures = RingStructure
