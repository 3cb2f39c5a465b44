from kernelfields import (
    ChainCRF as ChainCRF,
    EdgeCliques as EdgeCliques,
    LabelDictionary as LabelDictionary,
    NodeCliques as NodeCliques,
    SegmentCRF as SegmentCRF,
    get_field as get_field,
    find_label_errors as find_label_errors,
    load as load,
    rank_for_labelling as rank_for_labelling,
)
from kernelfields.data.constraints import find_scheme as find_scheme
from kernelfields.data.segments import DurationCliques as DurationCliques
from kernelfields.data.text_files import (
    check_outputs as check_outputs,
    input_name as input_name,
    open_text_output as open_text_output,
    standard_output as standard_output,
    write_whole as write_whole,
)
from kernelfields.engines.choice import resolve_engine as resolve_engine
from kernelfields.estimators.span_questions import Entity as Entity
from kernelfields.evaluation import Evaluation as Evaluation, compare as compare, evaluate as evaluate
from kernelfields.formats import (
    ColumnFile as ColumnFile,
    SequenceFile as SequenceFile,
    SequenceFileError as SequenceFileError,
    describe_reading as describe_reading,
    guess_format as guess_format,
    write_columns as write_columns,
    write_predictions as write_predictions,
    write_sequences as write_sequences,
)
from kernelfields.formats.annotation_files import (
    ANNOTATION_FORMATS as ANNOTATION_FORMATS,
    guess_annotation_format as guess_annotation_format,
    has_raw_text as has_raw_text,
    list_files as list_files,
    find_losses as find_losses,
    list_options as list_options,
    read_documents as read_documents,
    write_documents as write_documents,
)
from kernelfields.formats.column_files import ColumnSequence as ColumnSequence, LabelledColumns as LabelledColumns
from kernelfields.formats.tokens import tokenize as tokenize
from kernelfields.kernels import Kernel as Kernel, resolve_kernel as resolve_kernel
from kernelfields.labelling import agreement as agreement
from kernelfields.models.choices import Choices as Choices, Trial as Trial
from kernelfields.models.documents import document_bytes as document_bytes, read_any_document as read_any_document
from kernelfields.models.model_file import is_crfsuite_file as is_crfsuite_file
from kernelfields.models.stored import (
    describe_stored as describe_stored,
    kinds_by_name as kinds_by_name,
    rebuild_locally as rebuild_locally,
)
from kernelfields.objective.bounds import Certificate as Certificate
from kernelfields.page.files import (
    guess_document_format as guess_document_format,
    open_file as open_file,
    read_guidelines as read_guidelines,
    align_words as align_words,
)
from kernelfields.page.server import Server as Server, check_installed as check_installed
from kernelfields.page.session import LabellingSession as LabellingSession
from kernelfields.reports.inspection import ModelSummary as ModelSummary, WeightsTable as WeightsTable
from kernelfields.reports.page import Shown as Shown
from kernelfields.reports.report import report_page as report_page
from kernelfields.reports.tables import json_value as json_value
from kernelfields.serving import load_chain as load_chain
from kernelfields.serving.onnx_export import OUTPUTS as OUTPUTS, to_onnx as to_onnx
from kernelfields.studio.backend import Backend as Backend
from kernelfields.studio.server import StudioServer as StudioServer
