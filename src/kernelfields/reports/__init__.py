"""Reports: progress of a fit; tables, pictures and HTML pages of models and their evaluations.

    from kernelfields.reports import plot_convergence, report_page

matplotlib is loaded when something is drawn, jinja2 when HTML is written, networkx when a graph is laid out.
"""

from typing import TYPE_CHECKING

from kernelfields.numerics.lazy import lazy_names

if TYPE_CHECKING:
    from kernelfields.reports.curves import plot_convergence, plot_reliability
    from kernelfields.reports.figures import Picture
    from kernelfields.reports.graph_pictures import LabelledGraph
    from kernelfields.reports.heat_maps import plot_heat_map, plot_transitions
    from kernelfields.reports.inspection import Explanation, ModelSummary, WeightsTable
    from kernelfields.reports.markup import Markup
    from kernelfields.reports.page import Shown
    from kernelfields.reports.report import report_page
    from kernelfields.reports.sequences import LabelledSequence, plot_sequence
    from kernelfields.reports.tables import Estimate, Table

__all__ = [
    "Estimate",
    "Explanation",
    "LabelledGraph",
    "LabelledSequence",
    "Markup",
    "ModelSummary",
    "Picture",
    "Shown",
    "Table",
    "WeightsTable",
    "plot_convergence",
    "plot_heat_map",
    "plot_reliability",
    "plot_sequence",
    "plot_transitions",
    "report_page",
]
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "curves": ["plot_convergence", "plot_reliability"],
        "figures": ["Picture"],
        "graph_pictures": ["LabelledGraph"],
        "heat_maps": ["plot_heat_map", "plot_transitions"],
        "inspection": ["Explanation", "ModelSummary", "WeightsTable"],
        "page": ["Shown"],
        "report": ["report_page"],
        "sequences": ["LabelledSequence", "plot_sequence"],
        "tables": ["Estimate", "Table"],
        "markup": ["Markup"],
    },
)
