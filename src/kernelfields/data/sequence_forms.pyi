from kernelfields.data.positions import (
    check_sequence as check_sequence,
    is_collection as is_collection,
    is_feature_position as is_feature_position,
)
from kernelfields.data.single_arrays import (
    frame_advice as frame_advice,
    list_equal_sequences as list_equal_sequences,
)
from kernelfields.numerics.windows import window_view as window_view
