from kernelfields.structures.class_weights import check_class_weight as check_class_weight
from kernelfields.data.constraints import Scheme as Scheme
from kernelfields.data.label_notations import recognize_scheme as recognize_scheme
from kernelfields.data.label_dictionary import LabelDictionary as LabelDictionary, check_dictionary as check_dictionary
from kernelfields.data.ties import LabelSymmetry as LabelSymmetry, resolve_ties as resolve_ties
from kernelfields.engines.engine import SampleSettings as SampleSettings
from kernelfields.estimators.beginning import FROM_NOTHING as FROM_NOTHING, Beginning as Beginning
from kernelfields.estimators.column_scales import learn_scale as learn_scale
from kernelfields.estimators.edges import clique_set as clique_set
from kernelfields.estimators.field_documents import (
    describe_field as describe_field,
    rebuild_field as rebuild_field,
)
from kernelfields.estimators.fit_state import (
    FitRun as FitRun,
    FitState as FitState,
    add_steps as add_steps,
    with_usual_choices as with_usual_choices,
)
from kernelfields.estimators.inspecting.explanations import (
    Compared as Compared,
    ExplanationSettings as ExplanationSettings,
    check_one_sequence as check_one_sequence,
    check_places as check_places,
    check_tokens as check_tokens,
    explain_labels as explain_labels,
    input_names as input_names,
    likeliest_others as likeliest_others,
    one_row as one_row,
)
from kernelfields.estimators.inspecting.plots import Plots as Plots
from kernelfields.estimators.inspecting.weights import (
    describe_changed_parameters as describe_changed_parameters,
    summarise_term as summarise_term,
    tabulate_weights as tabulate_weights,
)
from kernelfields.estimators.later_fits import (
    FirstBatch as FirstBatch,
    GoesOn as GoesOn,
    NextBatch as NextBatch,
    has_partial_fit as has_partial_fit,
)
from kernelfields.estimators.pipelines import with_preprocessor as with_preprocessor
from kernelfields.estimators.observers import (
    show_messages as show_messages,
    make_observing_steps as make_observing_steps,
)
from kernelfields.estimators.requested import requested_steps as requested_steps
from kernelfields.estimators.thresholds import (
    RareLabels as RareLabels,
    choose_thresholds as choose_thresholds,
    list_thresholds as list_thresholds,
)
from kernelfields.features.choice import (
    check_transformers as check_transformers,
)
from kernelfields.inference.answers import Answers as Answers
from kernelfields.inference.spans import (
    Spans as Spans,
    boundary_probabilities as boundary_probabilities,
    likely_spans as likely_spans,
    span_probabilities as span_probabilities,
)
from kernelfields.models.choices import Choices as Choices, Trial as Trial
from kernelfields.models.continuation import Continuation as Continuation
from kernelfields.features.leakage import (
    RepeatedLabels as RepeatedLabels,
)
from kernelfields.models.field import Field as Field
from kernelfields.models.fit import FittedBy as FittedBy, fit_field as fit_field
from kernelfields.models.fit_warnings import warn_of_fit as warn_of_fit
from kernelfields.models.pilot_fit import Predictions as Predictions
from kernelfields.models.stream import LabelStream as LabelStream
from kernelfields.posterior.evidence.settings import EvidencePath as EvidencePath
from kernelfields.posterior.laplace.probit import shrink_marginals as shrink_marginals
from kernelfields.posterior.laplace.samples import (
    LaplaceSamples as LaplaceSamples,
    draw_posterior as draw_posterior,
    get_drawn_coefficients as get_drawn_coefficients,
    label_variances as label_variances,
)
from kernelfields.reports.inspection import ModelSummary as ModelSummary
from kernelfields.reports.sequences import LabelledSequence as LabelledSequence
from kernelfields.solvers.choice import (
    FitOptions as FitOptions,
    NATS_PER_POSITION as NATS_PER_POSITION,
    check_solver as check_solver,
    resolve_tolerance as resolve_tolerance,
)
from kernelfields.inputs.scale import Scale as Scale
