"""LaTeX in docstrings as text for a terminal: `$dS = \\mu S\\,dt$` becomes `dS = μ S dt`."""

import re

COMMANDS = """
alpha α, beta β, gamma γ, delta δ, epsilon ε, varepsilon ε, zeta ζ, eta η, theta θ, kappa κ, lambda λ, mu μ,
nu ν, xi ξ, pi π, rho ρ, sigma σ, tau τ, phi φ, varphi φ, chi χ, psi ψ, omega ω, Gamma Γ, Delta Δ, Theta Θ,
Lambda Λ, Xi Ξ, Pi Π, Sigma Σ, Phi Φ, Psi Ψ, Omega Ω, ge ≥, geq ≥, le ≤, leq ≤, ne ≠, neq ≠, approx ≈, sim ~,
infty ∞, cdot ·, times ×, circ ∘, sum Σ, int ∫, in ∈, partial ∂, nabla ∇, to →, mapsto ↦, pm ±, ldots …,
dots …, cdots …, rightleftharpoons ⇌, lfloor ⌊, rfloor ⌋, top T
"""
SPACES = {"left": "", "right": "", "quad": " ", "qquad": "  "}
SYMBOLS = dict(re.findall(r"(\w+) ([^,\s]+)", COMMANDS)) | SPACES
RAISED = str.maketrans("0123456789+-−n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻ⁿ")
LOWERED = str.maketrans("0123456789+-−", "₀₁₂₃₄₅₆₇₈₉₊₋₋")

GROUP = r"(?:\{((?:[^{}]|\{[^{}]*\})*)\}|([^\s\\{}]|\\[A-Za-z]+))"  # {one level of nesting} or a single token


def plain_text(docstring: str) -> str:
    """The docstring with its formulas, `$…$` and `$$…$$`, in Unicode, and without the marks of bold words."""
    text = re.sub(r"\$\$(.+?)\$\$", lambda m: f"\n\n{_display(m[1])}\n\n", docstring, flags=re.DOTALL)
    text = re.sub(r"\$(.+?)\$", lambda m: _formula(m[1]), text, flags=re.DOTALL)
    text = re.sub(r"(?<!\S)\*\*(\w[^*]*)\*\*", r"\1", text)
    return re.sub(r"\n\s*\n(\s*\n)+", "\n\n", text)


def _display(latex: str) -> str:
    """A formula on lines of its own; those of `aligned` without their marks."""
    rows = re.sub(r"\\(begin|end)\{aligned\}|(?<!\\)&", " ", latex).split(r"\\")
    return "\n".join(f"    {_formula(row)}" for row in rows)


def _formula(latex: str) -> str:
    text = " ".join(latex.split()).replace("-", "−")
    text = re.sub(r"\\[,;: ]", " ", text).replace(r"\!", "")
    text = re.sub(r"\\([{}|])", lambda m: {"{": "〔", "}": "〕", "|": "‖"}[m[1]], text)
    text = re.sub(r"\\(?:mathrm|mathbb|mathbf|text|operatorname)\b\s*" + GROUP, lambda m: m[1] or m[2], text)
    text = re.sub(r"\\[bB]igg?[lr]?\b", "", text)
    text = re.sub(
        r"\\(d?)dot\s*" + GROUP, lambda m: " " + (m[2] or m[3]) + ("\u0308" if m[1] else "\u0307"), text
    )
    text = re.sub(r"\\(sin|cos|tan|exp|ln)\s*(?=[^(\s^])", r" \1 ", text)
    for _ in range(3):
        text = re.sub(r"\\[dt]?frac\s*" + GROUP + r"\s*" + GROUP, _fraction, text)
        text = re.sub(r"\\sqrt\s*" + GROUP, lambda m: "√" + _bracketed(m[1] or m[2]), text)
    text = re.sub(r"\\([A-Za-z]+)", lambda m: SYMBOLS.get(m[1], m[1]), text)
    text = re.sub(r"\^(\d)", lambda m: m[1].translate(RAISED), text)
    text = re.sub(r"\^" + GROUP, lambda m: _script(m[1] or m[2], "^", RAISED), text)
    text = re.sub(r"_" + GROUP, lambda m: _script(m[1] or m[2], "_", LOWERED), text)
    text = text.replace("{", "").replace("}", "").replace("〔", "{").replace("〕", "}")
    return re.sub(r" +", " ", text).strip()


def _fraction(result: re.Match) -> str:
    over, under = result[1] or result[2], result[3] or result[4]
    return f"{_bracketed(over)}/{_bracketed(under)}"


def _bracketed(text: str) -> str:
    """The text in round brackets, unless it is a single letter, command, number or power."""
    return text if re.fullmatch(r"\\?\w+(\^\w|\^\{\w+\})?\s*", text) else f"({text})"


def _script(text: str, mark: str, digits: dict[int, int]) -> str:
    """The text in raised or lowered digits where there are such characters, else behind the mark."""
    if all(ord(letter) in digits for letter in text):
        return text.translate(digits)
    return f"{mark}{text}" if text.isalnum() and (mark == "_" or len(text) == 1) else f"{mark}({text})"
