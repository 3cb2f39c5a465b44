from kernelfields.data.allowed import AllowedLabels as AllowedLabels
from kernelfields.data.partial_labels import (
    LabelWeights as LabelWeights,
    SoftRows as SoftRows,
    as_log_weights as as_log_weights,
    read_partial_labels as read_partial_labels,
    share_right as share_right,
    are_partly_known as are_partly_known,
)
from kernelfields.data.partial_rows import PartialRows as PartialRows, make_given_labels as make_given_labels
