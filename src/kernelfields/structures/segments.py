"""Segments: pieces of sequences, each with one label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from kernelfields.data.chains import Chains
from kernelfields.data.cliques import CliqueSet
from kernelfields.data.readers import InputReader
from kernelfields.data.reading import find_place
from kernelfields.data.segments import (
    DURATION,
    DurationCliques,
    SegmentedChains,
    are_segments,
    check_duration,
    find_begins,
    read_segments,
)
from kernelfields.inference.choice import FamilySpec
from kernelfields.inference.potentials import EDGE
from kernelfields.inference.segments.checks import SegmentChecks
from kernelfields.models.build import name_cliques
from kernelfields.numerics.threads import Workers
from kernelfields.structures import library
from kernelfields.structures.chains import PartOf, SequenceStructure

if TYPE_CHECKING:
    from kernelfields.models.model_file import Document
    from kernelfields.objective.term import Term


class SegmentReader(InputReader):
    """Reader of sequences of segments."""

    packs = SegmentedChains


def plain_labels(y: Any) -> tuple[Any, np.ndarray | None]:
    """Return labels of positions, and segment begins if y is written as segments."""
    return read_segments(y) if are_segments(y) else (y, None)


@dataclass(frozen=True, eq=False)
class SegmentStructure(SequenceStructure):
    """Labels of segments, of which neighbours meet, and durations."""

    kind = "segments"
    reads = SegmentReader

    def check(self) -> None:
        super().check()
        name_cliques(self.described_cliques(1))

    def family(self, classes: np.ndarray, data: Chains | None) -> FamilySpec:
        longest = self.settings.max_duration
        if longest is None:
            if not isinstance(data, SegmentedChains):
                raise ValueError("max_duration is read off segments of this process: give it for Dask collections")
            begins, ends, _ = data.segments
            longest = min(2 * int((ends - begins).max()), int(data.lengths.max()))
        spec = replace(super().family(classes, data), max_duration=int(longest), repeats=bool(self.settings.repeats))
        return replace(spec, shortest=self._shortest(classes, int(longest)))

    def _shortest(self, classes: np.ndarray, longest: int) -> tuple[int, ...] | None:
        """Return the least duration of segments of each label, None if all may have one position."""
        given = self.settings.min_duration
        least = np.ones(len(classes), dtype=np.int64)
        if isinstance(given, Mapping):
            places = {label: place for place, label in enumerate(classes.tolist())}
            for label, duration in given.items():
                least[find_place(label, places, "min_duration names")] = duration
        elif given is not None:
            least[:] = given
        if (above := np.flatnonzero(least > longest)).size:
            raise ValueError(
                f"min_duration of {classes[above[0]].item()!r} is {least[above[0]]}, more than max_duration={longest}: "
                "raise max_duration, or lower min_duration"
            )
        return None if (least == 1).all() else tuple(least.tolist())

    def with_classes(self, classes: np.ndarray) -> Self:
        found = super().with_classes(classes)
        shortest = self._shortest(classes, self.spec.max_duration)
        return replace(found, spec=replace(found.spec, shortest=shortest))

    # ---- data

    def training_labels(self, y: Any, *, warn: bool = False) -> Any:
        # A segment has one label: where those of entities break their scheme, it is for the user to cut it.
        return y if are_segments(y) else super().training_labels(y, warn=warn)

    def position_labels(self, y: Any) -> Any:
        return plain_labels(y)[0]

    def _add_segments(self, chains: Chains, begins: np.ndarray | None, longest: int | None) -> SegmentedChains:
        """Return labelled chains with their segments.

        Of labels that are partly known, one labelling stands for all, cut anyhow.
        """
        assert isinstance(chains, SegmentedChains), "SegmentReader packs them so"
        if chains.labels is None:
            return chains
        if begins is not None:
            chains.given.check_complete(
                "labels that are partly known are written position by position, not as segments (begin, end, label)"
            )
        else:
            cut = self.settings.repeats or not chains.given.complete
            even = self.settings.min_duration is not None
            begins = find_begins(chains.labels, chains.offsets, longest if cut else None, even=even)
        return replace(chains, begins=begins)

    def learn(
        self, X: object, y: object, sample_weight: object, part_of: PartOf | None = None
    ) -> tuple[InputReader, SegmentedChains, np.ndarray]:
        y, begins = plain_labels(self.training_labels(y, warn=part_of is None))
        reader, longest = self.new_reader(X, part_of), self.settings.max_duration
        known = None if part_of is None else part_of[1]
        known = self.declared_classes if known is None else known
        chains, classes = reader.learn(X, y, sample_weight, classes=known)
        if longest is None:
            chains.given.check_complete("some labels of y are not known, nor how long segments are: give max_duration")
        data = self._add_segments(chains, begins, longest)
        SegmentChecks().check_labels(data, self.family(classes, data), classes)
        return reader, data, classes

    def _read_items(self, X: object, y: object, sample_weight: object) -> SegmentedChains:
        y, begins = plain_labels(y)
        return self._add_segments(super()._read_items(X, y, sample_weight), begins, self.spec.max_duration)

    # ---- clique sets

    def described_cliques(self, max_duration: int) -> list[CliqueSet]:
        """Return the clique sets that the parameters describe."""
        usual = self.with_usual_values()
        given = usual.settings
        cliques = usual.nodes_and_edges()
        if given.durations is not None:
            shared = {"basis": given.basis, "rank": given.rank, "prior_variance": usual.first_variance}
            durations = DurationCliques() if isinstance(given.durations, str) else given.durations
            cliques.append(durations.with_defaults(**shared).set_params(max_duration=max_duration))
        return cliques

    def clique_sets(self, training: Any) -> library.NamedCliques:
        cliques = self.described_cliques(training.spec.max_duration)
        return name_cliques(
            self.beside_categories(cliques, training.reader) if training.reader.rows.categories else cliques
        )

    # ---- after a fit

    def continued_parameters(self) -> dict[str, Any]:
        longest = self.settings.max_duration
        return {"max_duration": self.spec.max_duration if longest is None else longest}

    def views(self, terms: Sequence[Term]) -> dict[str, Any]:
        # Scores of durations are the same for all data, so those of none will do.
        nothing = Chains(np.empty((0, 0)), np.zeros(1, dtype=np.int64))
        durations = [term.scores(nothing, Workers(1)) for term in terms if term.group == DURATION]
        return {**super().views(terms), "durations_": np.sum(durations, axis=0) if durations else None}

    def describe(self) -> Document:
        described = {**super().describe(), "max_duration": self.spec.max_duration, "repeats": self.spec.repeats}
        shortest = self.spec.shortest
        return described if shortest is None else {**described, "min_duration": list(shortest)}

    @classmethod
    def rebuild_spec(cls, described: Mapping[str, Any], classes: np.ndarray) -> FamilySpec:
        check_duration(described["max_duration"])
        longest, repeats = int(described["max_duration"]), bool(described["repeats"])
        spec = replace(super().rebuild_spec(described, classes), max_duration=longest, repeats=repeats)
        if "min_duration" not in described:
            return spec
        shortest = tuple(map(int, described["min_duration"]))
        if len(shortest) != len(classes) or not all(1 <= least <= longest for least in shortest):
            raise ValueError("the least durations do not match the labels, or the longest one")
        return replace(spec, shortest=shortest)

    @classmethod
    def check_terms(cls, terms: Sequence[Term], reader: InputReader, spec: FamilySpec) -> None:
        for term in terms:
            if term.group == DURATION and term.clique.max_duration != spec.max_duration:
                raise ValueError("the durations of a set are not those of the field")
            if term.group not in (None, EDGE, DURATION):
                raise ValueError(f"set {term.name!r} scores labels that do not meet in segments")
