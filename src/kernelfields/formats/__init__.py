"""Files: models as data, sequences with their labels, templates of features.

Names load on first use: the reader of served models needs the text of model files, and NumPy alone.
"""

from typing import TYPE_CHECKING

from kernelfields.numerics.lazy import lazy_names

if TYPE_CHECKING:
    from kernelfields.data.text_files import SequenceFileError
    from kernelfields.features.templates import Template
    from kernelfields.formats.annotated_texts import (
        Document,
        LabelledSpan,
        Labelling,
        labels_of,
        sequences_of,
        spans_of,
    )
    from kernelfields.formats.annotation_files import Loss, losses, read_documents, write_documents
    from kernelfields.formats.column_files import TEXT_FEATURES, ColumnFile, ColumnSequence, read_columns, write_columns
    from kernelfields.formats.crfsuite_text import read_crfsuite, write_crfsuite
    from kernelfields.formats.label_marks import label_text, partial_labels, unknown_marks
    from kernelfields.formats.sequence_file import Reading, SequenceFile
    from kernelfields.formats.sequence_files import (
        describe_reading,
        format_of,
        read_sequences,
        rebuild_reading,
        write_predictions,
        write_sequences,
    )
    from kernelfields.formats.sequence_tables import read_table, write_table
    from kernelfields.formats.tokens import tokenize
    from kernelfields.models.model_file import ModelFileError, read_model, write_model

__all__ = [
    "TEXT_FEATURES",
    "ColumnFile",
    "ColumnSequence",
    "Document",
    "LabelledSpan",
    "Labelling",
    "Loss",
    "ModelFileError",
    "Reading",
    "SequenceFile",
    "SequenceFileError",
    "Template",
    "describe_reading",
    "format_of",
    "label_text",
    "labels_of",
    "losses",
    "partial_labels",
    "read_columns",
    "read_crfsuite",
    "read_documents",
    "read_model",
    "read_sequences",
    "read_table",
    "rebuild_reading",
    "sequences_of",
    "spans_of",
    "tokenize",
    "unknown_marks",
    "write_columns",
    "write_crfsuite",
    "write_documents",
    "write_model",
    "write_predictions",
    "write_sequences",
    "write_table",
]
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "annotated_texts": ["Document", "LabelledSpan", "Labelling", "labels_of", "sequences_of", "spans_of"],
        "annotation_files": ["Loss", "losses", "read_documents", "write_documents"],
        "column_files": ["TEXT_FEATURES", "ColumnFile", "ColumnSequence", "read_columns", "write_columns"],
        "crfsuite_text": ["read_crfsuite", "write_crfsuite"],
        "label_marks": ["label_text", "partial_labels", "unknown_marks"],
        "kernelfields.models.model_file": ["ModelFileError", "read_model", "write_model"],
        "sequence_file": ["Reading", "SequenceFile"],
        "sequence_files": [
            "describe_reading",
            "format_of",
            "read_sequences",
            "rebuild_reading",
            "write_predictions",
            "write_sequences",
        ],
        "sequence_tables": ["read_table", "write_table"],
        "kernelfields.features.templates": ["Template"],
        "kernelfields.data.text_files": ["SequenceFileError"],
        "tokens": ["tokenize"],
    },
)
