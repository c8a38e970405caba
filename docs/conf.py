"""Sphinx settings: Markdown pages by MyST, the reference from numpydoc docstrings."""

import sys
from pathlib import Path

from lipyomo import __version__

sys.path.insert(0, str(Path(__file__).resolve().parent / "_ext"))

project = "lipyomo"
author = "the lipyomo developers"
copyright = f"{author}, BSD-3-Clause"
version = release = __version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "mathml",  # docs/_ext: formulas need no network
    "moved",  # docs/_ext: former addresses lead on
    "numpydoc",
]
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
numpydoc_show_class_members = False
autodoc_typehints = "none"
autodoc_default_options = {"members": True, "show-inheritance": True}
exclude_patterns = ["_build"]
html_math_renderer = "mathml"
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_title = f"lipyomo {__version__}"
