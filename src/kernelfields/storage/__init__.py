"""Model files of every kind: ``save`` and ``load``."""

from kernelfields.storage.files import load, save

__all__ = ["load", "save"]
