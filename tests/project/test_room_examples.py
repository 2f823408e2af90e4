"""The examples in the READMEs of rooms: one more closed form, one more command."""

import re
from unittest import mock

from checkout import ROOT
from derivative_examples import last
from typer.testing import CliRunner

from simkit import CLOSED_FORMS
from simkit.cli import app


def defined_by(readme: str) -> dict:
    """What the Python block of a README defines."""
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / readme).read_text("utf-8"), re.S)
    names: dict = {"__name__": "example"}
    exec(compile(block, readme, "exec"), names)
    return names


def test_a_closed_form_of_ones_own_is_the_exact_value_of_a_run():
    with mock.patch.dict(CLOSED_FORMS):
        dataset = defined_by("simkit/closed_forms/README.md")["dataset"]
        assert "gbm_second_moment" in CLOSED_FORMS
    assert last(dataset, "square_stderr") < 0.02 * last(dataset, "square_mean")
    assert abs(last(dataset, "square_z")) < 5


def test_a_command_of_ones_own_runs_and_reports_mistakes():
    with mock.patch.object(app, "registered_commands", [*app.registered_commands]):
        defined_by("simkit/cli/README.md")
        result = CliRunner().invoke(app, ["steps", str(ROOT / "examples/gbm.yaml")])
        assert (result.exit_code, result.stdout.strip()) == (0, "252"), result.output
        missing = CliRunner().invoke(app, ["steps", "none.yaml"])
        assert missing.exit_code == 4
    assert CliRunner().invoke(app, ["steps", "none.yaml"]).exit_code == 2
