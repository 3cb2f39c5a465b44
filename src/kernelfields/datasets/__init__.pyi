from kernelfields.datasets.graphs import (
    load_webpages as load_webpages,
    make_contours as make_contours,
    make_trees as make_trees,
)
from kernelfields.datasets.items import (
    make_annotated as make_annotated,
    make_multilabel as make_multilabel,
    make_strips as make_strips,
)
from kernelfields.datasets.proteins import load_proteins as load_proteins, make_membranes as make_membranes
from kernelfields.datasets.sensors import (
    load_rooms as load_rooms,
    make_activity as make_activity,
    make_circles as make_circles,
    make_moves as make_moves,
    make_wristband as make_wristband,
)
from kernelfields.datasets.songs import make_songs as make_songs
from kernelfields.datasets.spans import make_spans as make_spans
from kernelfields.datasets.texts import (
    load_abstracts as load_abstracts,
    load_addresses as load_addresses,
    load_prominence as load_prominence,
    load_references as load_references,
    make_entities as make_entities,
)
