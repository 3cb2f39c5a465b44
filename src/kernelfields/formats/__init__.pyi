from kernelfields.data.text_files import SequenceFileError as SequenceFileError
from kernelfields.features.templates import Template as Template
from kernelfields.formats.annotated_texts import (
    Document as Document,
    LabelledSpan as LabelledSpan,
    Labelling as Labelling,
    list_labels as list_labels,
    to_sequences as to_sequences,
    list_spans as list_spans,
)
from kernelfields.formats.annotation_files import (
    Loss as Loss,
    find_losses as find_losses,
    read_documents as read_documents,
    write_documents as write_documents,
)
from kernelfields.formats.column_files import (
    TEXT_FEATURES as TEXT_FEATURES,
    ColumnFile as ColumnFile,
    ColumnSequence as ColumnSequence,
    read_columns as read_columns,
    write_columns as write_columns,
)
from kernelfields.formats.crfsuite_text import read_crfsuite as read_crfsuite, write_crfsuite as write_crfsuite
from kernelfields.formats.label_marks import (
    label_text as label_text,
    partial_labels as partial_labels,
    unknown_marks as unknown_marks,
)
from kernelfields.formats.sequence_file import Reading as Reading, SequenceFile as SequenceFile
from kernelfields.formats.sequence_files import (
    describe_reading as describe_reading,
    guess_format as guess_format,
    read_sequences as read_sequences,
    rebuild_reading as rebuild_reading,
    write_predictions as write_predictions,
    write_sequences as write_sequences,
)
from kernelfields.formats.sequence_tables import read_table as read_table, write_table as write_table
from kernelfields.formats.tokens import tokenize as tokenize
from kernelfields.models.model_file import (
    ModelFileError as ModelFileError,
    read_model as read_model,
    write_model as write_model,
)
