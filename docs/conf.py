"""Configuration of the documentation site.

``make docs`` builds it, offline and with warnings as errors.
"""

import importlib.util
import sys
from pathlib import Path

import matplotlib as mpl

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE / "site"))
mpl.use("agg")

from galleries import drop_stale  # noqa: E402

from kernelfields import __version__  # noqa: E402

project = "kernelfields"
author = "the authors of kernelfields"
copyright = author  # noqa: A001 - the name that Sphinx reads
version = release = __version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "source_pages",
    "search_terms",
    "docstrings",
]
exclude_patterns = ["site", "_templates"]
templates_path = ["_templates"]
nitpicky = True

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 4
myst_url_schemes = {
    "http": None,
    "https": None,
    "mailto": None,
    "source": None,
}

autosummary_generate = True
# The reference of the layers needs their names and docstrings, not PyTorch.
autodoc_mock_imports = [
    name for name in ("torch",) if importlib.util.find_spec(name) is None
]
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
toc_object_entries_show_parents = "hide"
smartquotes = False


def mathjax_file() -> Path:
    """Return the script of MathJax that needs no fonts and loads nothing."""
    spec = importlib.util.find_spec("sphinx-mathjax-offline")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(
            "formulas need MathJax from sphinx-mathjax-offline: "
            "pip install '.[docs]'"
        )
    return Path(spec.origin).parent / "static" / "mathjax" / "tex-svg.js"


mathjax_path = mathjax_file().name
mathjax3_config = {"options": {"enableMenu": False}}

html_theme = "pydata_sphinx_theme"
html_title = "kernelfields"
html_static_path = ["site/static", str(mathjax_file())]
html_css_files = ["kernelfields.css"]
html_show_sourcelink = False
html_copy_source = False
WIDE_PAGES = [
    "paper",
    "changelog",
    "guide",
    "matrix",
    "migrating",
    "performance",
    "single_labels",
    *(f"results/{page.stem}" for page in HERE.glob("results/*.md")),
]
html_theme_options = {
    "logo": {"text": "kernelfields"},
    "header_links_before_dropdown": 7,
    "navbar_align": "left",
    "navbar_persistent": ["search-button"],
    "navigation_with_keys": False,
    # Pages of wide tables use the room of the list of sections.
    "secondary_sidebar_items": {
        "**": ["page-toc"],
        **{page: [] for page in WIDE_PAGES},
    },
    "show_nav_level": 1,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-light",
    "pygments_dark_style": "a11y-dark",
}
html_sidebars = {
    page: [] for page in ("index", "install", "migrating", "paper", "recipes")
}

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

drop_stale(ROOT / "examples", HERE / "gallery")
sphinx_gallery_conf = {
    "examples_dirs": str(ROOT / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"^(?!plot_)",
    "subsection_order": "galleries.subsection_order",
    "within_subsection_order": "FileNameSortKey",
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("kernelfields",),
    "capture_repr": ("_repr_html_",),
    "image_scrapers": ("matplotlib",),
    "reset_modules": ("matplotlib",),
    "abort_on_example_error": True,
    "only_warn_on_example_error": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "download_all_examples": False,
    "min_reported_time": 0,
    "write_computation_times": False,
    "nested_sections": True,
    "plot_gallery": "True",
    "parallel": True,
}
