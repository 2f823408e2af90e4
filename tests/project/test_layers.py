"""solvers <- physics <- simkit: no layer imports one above it."""

import ast

import pytest
from checkout import ROOT

ABOVE = {"solvers/simkit_solvers": {"simkit_physics", "simkit"}, "physics/simkit_physics": {"simkit"}}


def imports(source: str) -> set[str]:
    nodes = list(ast.walk(ast.parse(source)))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}
    return {name.split(".")[0] for name in names}


@pytest.mark.parametrize("layer", ABOVE)
def test_imports_never_point_upwards(layer):
    files = sorted((ROOT / layer).rglob("*.py"))
    assert files
    wrong = {str(f.relative_to(ROOT)): imports(f.read_text("utf-8")) & ABOVE[layer] for f in files}
    assert not {name: names for name, names in wrong.items() if names}


def test_the_check_sees_every_form_of_import():
    assert imports("def f():\n    import simkit.run as r\n    from simkit_physics.gbm import GBM") == {
        "simkit",
        "simkit_physics",
    }
