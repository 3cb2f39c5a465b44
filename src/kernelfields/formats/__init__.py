"""Files: models as data."""

from kernelfields.formats.model_file import ModelFileError, read_model, write_model

__all__ = ["ModelFileError", "read_model", "write_model"]
