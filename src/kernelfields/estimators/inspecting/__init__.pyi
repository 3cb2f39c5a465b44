from kernelfields.estimators.inspecting.inspection import (
    Inspection as Inspection,
    SequenceInspection as SequenceInspection,
)
