"""How Sphinx builds these pages; `make docs` calls it."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from gallery import draw_pictures
from generate import generate

from simkit.version import simkit_version

project = "simkit"
author = "the simkit maintainers"
release = version = simkit_version()

extensions = ["myst_nb", "sphinx.ext.mathjax"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
# The tests run what stands on these pages; building them runs nothing.
nb_execution_mode = "off"
exclude_patterns = ["_build", "reference/tables"]

html_theme = "furo"
html_title = f"simkit {release}"


def setup(app):
    app.connect("builder-inited", lambda app: generate(HERE / "reference"))
    app.connect("builder-inited", lambda app: draw_pictures(HERE / "reference" / "pictures"))
