"""Formulas of docstrings as text for a terminal."""

import pytest

from simkit.cli.plain_math import plain_text


@pytest.mark.parametrize(
    ("latex", "text"),
    [
        (r"$dS = \mu S\,dt + \sigma S\,dW$", "dS = μ S dt + σ S dW"),
        (r"$\sqrt{v^+} S$ and $\sqrt T$", "√(v⁺) S and √T"),
        (r"$\frac{a - b}{2}$, $\frac12$, $\sigma^2 / 2\theta$", "(a − b)/2, 1/2, σ² / 2θ"),
        (r"$S_0^2 e^{2\mu t} (e^{\sigma^2 t} - 1)$", "S₀² e^(2μ t) (e^(σ² t) − 1)"),
        (r"$y_{n+1} = y_n$, $dW_1$", "y_(n+1) = y_n, dW₁"),
        (r"$\kappa\theta \ge \max(r, 0)$", "κθ ≥ max(r, 0)"),
        (r"$\ddot x + \delta\dot x = \cos\omega t$", "x\u0308 + δ x\u0307 = cos ω t"),
        (
            "$$\\begin{aligned} \\dot x &= v, \\\\ \\dot v &= -x. \\end{aligned}$$",
            "\n\n    x\u0307 = v,\n    v\u0307 = −x.\n\n",
        ),
        ("costs 5 and `a_b` without formulas", "costs 5 and `a_b` without formulas"),
        ("Before:\n\n$$x = \\pi.$$\n\nAfter.", "Before:\n\n    x = π.\n\nAfter."),
    ],
)
def test_latex_becomes_unicode(latex, text):
    assert plain_text(latex) == text
