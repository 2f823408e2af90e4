"""The built pages: their equations are MathML, without script or network, and they do not ask to be built."""

import re
import sys

import pytest
from checkout import ROOT
from test_docs import WRITTEN, generated  # noqa: F401


@pytest.fixture(scope="module")
def mathml():
    pytest.importorskip("docutils", reason="comes with the groups tests and docs")
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        from mathml import mathml

        return mathml
    finally:
        sys.path.remove(str(ROOT / "docs"))


def equations(text: str) -> list[tuple[str, bool]]:
    """TeX outside code, and whether it is an equation of its own line."""
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
    found = re.findall(r"\$\$(.+?)\$\$|(?<![\\$])\$(?!\s)([^$]+?)\$", prose, flags=re.DOTALL)
    return [(block or inline, bool(block)) for block, inline in found]


def test_each_equation_becomes_mathml(mathml, generated):  # noqa: F811
    pages = [*WRITTEN, *generated.rglob("*.md")]
    shown = [
        (page.name, tex, mathml(tex, block=block))
        for page in pages
        for tex, block in equations(page.read_text("utf-8"))
    ]
    assert len(shown) > 500
    assert [(page, tex) for page, tex, html in shown if "\\" in html or not html.startswith("<math")] == []


def test_digits_after_frac_are_its_arguments(mathml):
    for tex in (r"\tfrac12 x", r"\frac 12x", r"\frac{1}{2} x"):
        assert "<mn>1</mn><mn>2</mn></mfrac><mi>x</mi>" in mathml(tex), tex
    assert "<mn>1</mn><mn>24</mn></mfrac>" in mathml(r"\frac1{24} x")


def test_only_contributors_are_told_to_build_the_pages():
    """A reader of the built pages has them."""
    pages = {path.stem for path in WRITTEN if "make docs" in path.read_text("utf-8")}
    assert pages == {"contributing"}
