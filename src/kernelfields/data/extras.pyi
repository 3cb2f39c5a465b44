from kernelfields.data.column_names import check_columns as check_columns, shared_columns as shared_columns
from kernelfields.data.dicts import FeatureDictEncoder as FeatureDictEncoder, with_categories as with_categories
from kernelfields.data.label_dictionary import (
    FittedDictionary as FittedDictionary,
    LabelDictionary as LabelDictionary,
    rebuild_dictionary as rebuild_dictionary,
)
from kernelfields.data.ragged import (
    LabelLists as LabelLists,
    Ragged as Ragged,
    refuse_named_scorers as refuse_named_scorers,
)
from kernelfields.data.time_stamps import warn_of_time_stamps as warn_of_time_stamps
from kernelfields.data.ties import (
    Permutations as Permutations,
    TiedColumns as TiedColumns,
    column_permutations as column_permutations,
    number_orbits as number_orbits,
)
