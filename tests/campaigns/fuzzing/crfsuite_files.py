"""Damaged model files of CRFsuite: bytes of any kind, and numbers of headers, tables and features put to odd values.

Half of the files get the size that they have into their header, so that damage passes this first check.
"""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path

import numpy as np

import kernelfields
from kernelfields.compat.pycrfsuite import Tagger
from kernelfields.formats import ModelFileError
from tests.campaigns.fuzzing.damage import damaged_bytes
from tests.campaigns.fuzzing.verdicts import Case, Unsound
from tests.models.crfsuite_bytes import crfsuite_bytes, random_model, random_sequences

NAMES = ("crfsuite-models",)
_ODD = (0, 1, 2, 3, 7, 48, 255, 4096, 2**16, 2**20, 2**31 - 1, 2**31, 2**32 - 4, 2**32 - 1)
_MODELS = [random_model(), random_model(2, 40, 1), random_model(9, 25, 2)]
_FILES = [crfsuite_bytes(*model) for model in _MODELS]


class CRFsuiteFiles:
    """Damaged files, opened as a field and by a tagger."""

    def __init__(self, name: str = NAMES[0]):
        self.name = name
        self.path = Path(tempfile.mkdtemp()) / "case.crfsuite"

    def prepare(self) -> None:
        """Ask the sound models what will be asked of damaged ones, so that compilers have run."""
        for number, content in enumerate(_FILES):
            case = self._case(content, number, "undamaged")
            case.use(case.load())

    def case(self, random: np.random.Generator) -> Case:
        """Return a damaged file."""
        number = int(random.integers(len(_FILES)))
        content, notes = _FILES[number], []
        for _ in range(1 + int(random.integers(3) == 0)):
            if random.random() < 0.5:
                content = damaged_bytes(content, random)
                notes.append("bytes")
                continue
            # Numbers stand at every fourth byte of headers and references, and from 48 to the end at any.
            place = (
                4 * int(random.integers(12)) if random.random() < 0.4 else int(random.integers(48, len(content) + 1))
            )
            odd = int(random.choice(_ODD)) if random.random() < 0.7 else int(random.integers(len(content) + 1))
            if place + 4 <= len(content):
                content = content[:place] + struct.pack("<I", odd) + content[place + 4 :]
            notes.append(f"{odd} at {place}")
        if random.random() < 0.5:
            content = content[:4] + struct.pack("<I", len(content)) + content[8:]
        return self._case(content, number, "; ".join(notes))

    def _case(self, content: bytes, number: int, note: str) -> Case:
        X = random_sequences(_MODELS[number][1], 3)

        def load() -> tuple[kernelfields.ChainCRF, Tagger]:
            self.path.write_bytes(content)
            tagger = Tagger()
            tagger.open(self.path)
            return kernelfields.load(self.path), tagger

        def use(opened: tuple[kernelfields.ChainCRF, Tagger]) -> None:
            field, tagger = opened
            for x, marginals in zip(X, field.predict_marginals(X), strict=True):
                if not np.isfinite(marginals).all() or abs(marginals.sum(axis=1) - 1.0).max() > 1e-6:
                    raise Unsound(f"marginals of {marginals.min()} to {marginals.max()}")
                probability = tagger.probability(tagger.tag(x))
                if not 0.0 <= probability <= 1.0 + 1e-9:
                    raise Unsound(f"a probability of {probability}")
            tagger.info()

        return Case(load, use, content, ".crfsuite", f"model {number}: {note}", (ModelFileError,))
