from kernelfields.reports.curves import (
    plot_convergence as plot_convergence,
    plot_learning_curve as plot_learning_curve,
    plot_reliability as plot_reliability,
)
from kernelfields.reports.figures import Picture as Picture
from kernelfields.reports.graph_pictures import LabelledGraph as LabelledGraph
from kernelfields.reports.heat_maps import plot_heat_map as plot_heat_map, plot_transitions as plot_transitions
from kernelfields.reports.inspection import (
    Explanation as Explanation,
    ModelSummary as ModelSummary,
    WeightsTable as WeightsTable,
)
from kernelfields.reports.markup import Markup as Markup
from kernelfields.reports.page import Shown as Shown
from kernelfields.reports.report import report_page as report_page
from kernelfields.reports.sequences import LabelledSequence as LabelledSequence, plot_sequence as plot_sequence
from kernelfields.reports.tables import Estimate as Estimate, Table as Table
