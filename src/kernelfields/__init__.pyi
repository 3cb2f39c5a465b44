from kernelfields.annotators.annotated_crf import AnnotatedCRF as AnnotatedCRF
from kernelfields.data.border_cliques import EndCliques as EndCliques, StartCliques as StartCliques
from kernelfields.data.cliques import (
    EdgeCliques as EdgeCliques,
    NodeCliques as NodeCliques,
)
from kernelfields.data.far_cliques import LabelNgrams as LabelNgrams, SkipCliques as SkipCliques
from kernelfields.data.graph_cliques import GraphFactors as GraphFactors
from kernelfields.data.constraints import Constraints as Constraints
from kernelfields.data.label_dictionary import LabelDictionary as LabelDictionary
from kernelfields.data.partial_labels import SoftTargets as SoftTargets
from kernelfields.estimators.chain_crf import ChainCRF as ChainCRF
from kernelfields.estimators.density import ExponentialFamilyDensity as ExponentialFamilyDensity
from kernelfields.estimators.frame_crf import FrameCRF as FrameCRF
from kernelfields.estimators.graph_crf import GraphCRF as GraphCRF
from kernelfields.estimators.kernel_classifier import KernelClassifier as KernelClassifier
from kernelfields.estimators.multilabel_crf import MultiLabelCRF as MultiLabelCRF
from kernelfields.estimators.ring_crf import RingCRF as RingCRF
from kernelfields.estimators.segment_crf import SegmentCRF as SegmentCRF
from kernelfields.estimators.sequence_classifier import SequenceClassifier as SequenceClassifier
from kernelfields.evaluation.comparison import compare as compare
from kernelfields.evaluation.evaluation import evaluate as evaluate
from kernelfields.features.out_of_fold import OutOfFold as OutOfFold
from kernelfields.features.sequencewise import Sequencewise as Sequencewise
from kernelfields.features.text import TextFeatures as TextFeatures
from kernelfields.features.window_features import WindowFeatures as WindowFeatures
from kernelfields.files import load as load, save as save
from kernelfields.kernels.dot_product import Linear as Linear, Polynomial as Polynomial
from kernelfields.kernels.forest import Forest as Forest
from kernelfields.kernels.stationary import RBF as RBF, Laplacian as Laplacian, Matern as Matern
from kernelfields.labelling.label_errors import find_label_errors as find_label_errors
from kernelfields.labelling.ranking import rank_for_labelling as rank_for_labelling
from kernelfields.models.partial import PartialLabels as PartialLabels
from kernelfields.models.wrapped_field import get_field as get_field
from kernelfields.selection.field_search_cv import ChainCRFCV as ChainCRFCV, FieldSearchCV as FieldSearchCV
from kernelfields.uncertainty.conformal_field import ConformalField as ConformalField

__version__: str
