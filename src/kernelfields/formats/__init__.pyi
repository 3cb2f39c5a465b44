from kernelfields.data.text_files import SequenceFileError as SequenceFileError
from kernelfields.features.templates import Template as Template
from kernelfields.formats.annotated_texts import (
    Document as Document,
)
from kernelfields.formats.annotated_texts import (
    LabelledSpan as LabelledSpan,
)
from kernelfields.formats.annotated_texts import (
    Labelling as Labelling,
)
from kernelfields.formats.annotated_texts import (
    labels_of as labels_of,
)
from kernelfields.formats.annotated_texts import (
    sequences_of as sequences_of,
)
from kernelfields.formats.annotated_texts import (
    spans_of as spans_of,
)
from kernelfields.formats.annotation_files import (
    Loss as Loss,
)
from kernelfields.formats.annotation_files import (
    losses as losses,
)
from kernelfields.formats.annotation_files import (
    read_documents as read_documents,
)
from kernelfields.formats.annotation_files import (
    write_documents as write_documents,
)
from kernelfields.formats.column_files import (
    TEXT_FEATURES as TEXT_FEATURES,
)
from kernelfields.formats.column_files import (
    ColumnFile as ColumnFile,
)
from kernelfields.formats.column_files import (
    ColumnSequence as ColumnSequence,
)
from kernelfields.formats.column_files import (
    read_columns as read_columns,
)
from kernelfields.formats.column_files import (
    write_columns as write_columns,
)
from kernelfields.formats.crfsuite_text import read_crfsuite as read_crfsuite
from kernelfields.formats.crfsuite_text import write_crfsuite as write_crfsuite
from kernelfields.formats.label_marks import (
    label_text as label_text,
)
from kernelfields.formats.label_marks import (
    partial_labels as partial_labels,
)
from kernelfields.formats.label_marks import (
    unknown_marks as unknown_marks,
)
from kernelfields.formats.sequence_file import Reading as Reading
from kernelfields.formats.sequence_file import SequenceFile as SequenceFile
from kernelfields.formats.sequence_files import (
    describe_reading as describe_reading,
)
from kernelfields.formats.sequence_files import (
    format_of as format_of,
)
from kernelfields.formats.sequence_files import (
    read_sequences as read_sequences,
)
from kernelfields.formats.sequence_files import (
    rebuild_reading as rebuild_reading,
)
from kernelfields.formats.sequence_files import (
    write_predictions as write_predictions,
)
from kernelfields.formats.sequence_files import (
    write_sequences as write_sequences,
)
from kernelfields.formats.sequence_tables import read_table as read_table
from kernelfields.formats.sequence_tables import write_table as write_table
from kernelfields.formats.tokens import tokenize as tokenize
from kernelfields.models.model_file import (
    ModelFileError as ModelFileError,
)
from kernelfields.models.model_file import (
    read_model as read_model,
)
from kernelfields.models.model_file import (
    write_model as write_model,
)
