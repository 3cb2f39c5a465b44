"""Chains that are closed: their last label meets the first."""

from __future__ import annotations

from dataclasses import dataclass

from kernelfields.data.cliques import EndCliques, StartCliques
from kernelfields.data.readers import InputReader
from kernelfields.estimators.chain_crf import ChainCRF
from kernelfields.inference.ring import Rings
from kernelfields.numerics.parameters import declares_parameters
from kernelfields.numerics.windows import STATISTICS
from kernelfields.structures.chains import ChainStructure


class RingReader(InputReader):
    """Reads sequences as :class:`InputReader` does, and closes them."""

    packs = Rings


@dataclass(frozen=True, eq=False)
class RingStructure(ChainStructure):
    """Labels of the positions of rings, of which the last meets the first."""

    kind = "ring"
    reads = RingReader

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

    kind = "RingCRF"
    _structures = RingStructure
