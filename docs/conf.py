"""How Sphinx builds these pages; `make docs` calls it."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from gallery import draw_pictures
from generate import generate

from simkit import __version__

project = "simkit"
author = "the simkit maintainers"
release = version = __version__

extensions = ["myst_nb", "mathml"]
html_math_renderer = "mathml"
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
# The tests run the code on these pages; building them runs nothing.
nb_execution_mode = "off"
exclude_patterns = ["_build", "reference/tables"]

html_theme = "furo"
html_title = f"simkit {release}"
html_static_path = ["_static"]
html_css_files = ["simkit.css"]


def setup(app):
    app.connect("builder-inited", lambda app: generate(HERE / "reference"))
    app.add_config_value("draw_pictures", True, "")
    app.connect("builder-inited", draw)


def draw(app):
    """The pictures of examples and models, six minutes of processor time where none is there yet."""
    if app.config.draw_pictures:
        draw_pictures(HERE / "reference" / "pictures")
