from kernelfields.estimators.answering.decisions import DecisionRule as DecisionRule
from kernelfields.estimators.answering.formats import AnswerFormat as AnswerFormat, ByItem as ByItem
from kernelfields.estimators.answering.lengths import (
    answer_by_lengths as answer_by_lengths,
    cut_by_lengths as cut_by_lengths,
)
from kernelfields.estimators.answering.spans import SpanReading as SpanReading
