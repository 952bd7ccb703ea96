"""The site's settings: `make docs` builds it, and treats every warning as an error."""

import re
from importlib.metadata import version as installed_version

project = "lapsvm"
author = "The lapsvm developers"
copyright = "the lapsvm developers"  # noqa: A001 - Sphinx's name
version = release = installed_version("lapsvm")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
root_doc = "index"

# headings get anchors as GitHub makes them, so links with # work on both
myst_heading_anchors = 3
myst_links_external_new_tab = False

# torch is an extra: its classes are documented without it
autodoc_mock_imports = ["torch"]
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings give shapes, dtypes and units
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True  # an attribute is documented once, where the class is

html_theme = "furo"
html_title = "lapsvm"
html_extra_path = ["llms.txt", "../SKILL.md"]  # for programs that read the site
html_show_sourcelink = False
html_copy_source = False

# names such as `n_windows` stand for attributes of several classes; such a reference leads to one of them
suppress_warnings = ["ref.python"]

SPECIAL = re.compile(r"(``.*?``|`.*?`|:ivar [^:]*:)|((?<!\\)\|)|((?<=\w)_(?=\W|$))")


def escape_formulas(app, what, name, obj, options, lines):  # noqa: ARG001 - Sphinx calls with all of them
    """Escape |w| and coef_ outside of backticks, which reStructuredText reads as references."""
    lines[:] = [SPECIAL.sub(lambda match: match[1] or "\\" + match[0], line) for line in lines]


def skip_metadata_requests(app, what, name, obj, skip, options):  # noqa: ARG001
    """Leave out the `set_..._request` methods, which scikit-learn adds to every estimator."""
    return True if re.fullmatch(r"set_\w+_request|get_metadata_routing", name) else None


def setup(app):
    """Connect the two hooks."""
    app.connect("autodoc-process-docstring", escape_formulas, priority=600)  # after napoleon
    app.connect("autodoc-skip-member", skip_metadata_requests)
