"""Sphinx settings: Markdown pages by MyST, the reference from numpydoc docstrings."""

from lipyomo import __version__

project = "lipyomo"
author = "The lipyomo developers"
version = release = __version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "numpydoc",
]
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
numpydoc_show_class_members = False
autodoc_typehints = "none"
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"lipyomo {__version__}"
