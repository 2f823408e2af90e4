r"""Equations as MathML, which browsers draw without a script or a network.

Docutils converts them. It reads `\tfrac12` as a fraction with the numerator 12, so digits get braces first.
"""

import re

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml


def mathml(tex: str, *, block: bool = False) -> str:
    """An equation on one line of HTML; `MathError` if docutils does not know a command in it."""
    tex = re.sub(r"frac *(\d)(\d)", r"frac{\1}{\2}", tex)
    return re.sub(r">\s+<", "><", tex2mathml(tex, as_block=block)).strip()


def setup(app) -> dict:
    app.add_html_math_renderer("mathml", (_visitor("span"), None), (_visitor("div", block=True), None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _visitor(tag: str, *, block: bool = False):
    """What Sphinx calls for each equation."""

    def visit(translator, node: nodes.Element) -> None:
        try:
            html = mathml(node.astext(), block=block)
        except MathError as error:
            translator.document.reporter.warning(f"{error} in the equation {node.astext()}", base_node=node)
            html = translator.encode(node.astext())
        start = translator.starttag(node, tag, "", CLASS="math notranslate nohighlight")
        translator.body += [start, html, f"</{tag}>"]
        raise nodes.SkipNode

    return visit
