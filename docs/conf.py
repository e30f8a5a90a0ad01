"""The site: Sphinx with furo and MyST, from the Markdown of this folder. `make site` builds it."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import site_pages  # noqa: E402 - found by the line above

from tenure import __version__  # noqa: E402

project = "Tenure"
author = copyright = "The Tenure authors"
release = version = __version__
html_title = "Tenure"
language = "en"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
root_doc = "index"
exclude_patterns = ["_static"]
nitpicky = False

# A link to a page or a heading that does not exist is a warning, and `make site` makes warnings errors.
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
suppress_warnings: list[str] = []

# Names in backticks become links where the reference knows them, else code.
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True, "undoc-members": True}
autodoc_inherit_docstrings = False
python_maximum_signature_line_length = 100
add_module_names = False
highlight_language = "python"

html_theme = "furo"
pygments_dark_style = "github-dark"
html_theme_options = {
    "top_of_page_buttons": ["view"],
    "light_css_variables": {"color-brand-primary": "#0b6e4f", "color-brand-content": "#0b6e4f"},
    "dark_css_variables": {"color-brand-primary": "#5fd0a5", "color-brand-content": "#5fd0a5"},
}
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_search_scorer = str(ROOT / "docs" / "_static" / "scorer.js")
html_baseurl = os.environ.get("READTHEDOCS_CANONICAL_URL", "")
# "View source" shows the Markdown of the page; llms.txt lists the same files.
html_copy_source = True
html_show_sourcelink = True
html_sourcelink_suffix = ""
html_show_sphinx = False

setup = site_pages.setup
