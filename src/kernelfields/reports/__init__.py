"""Reports: progress of a fit; tables, pictures and HTML pages of models and their evaluations.

    from kernelfields.reports import plot_convergence, report_page

matplotlib is loaded when something is drawn, jinja2 when HTML is written, networkx when a graph is laid out.
"""

from kernelfields.numerics.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
