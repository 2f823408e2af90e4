"""`simkit new`: an experiment to start from."""

import re
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from simkit.cli.completion import complete_template, template_names
from simkit.cli.failures import reported
from simkit.cli.typer_app import app
from simkit.errors import InputError, OutputError
from simkit.suggestions import did_you_mean


@app.command()
def new(
    template: Annotated[
        str,
        typer.Argument(
            help=f"One of: {', '.join(template_names())}.",
            autocompletion=complete_template,
            show_default=False,
        ),
    ],
) -> None:
    """Write TEMPLATE.yaml into the current directory, ready to run."""
    with reported():
        if template not in template_names():
            hint = did_you_mean(template, template_names()) or f"; known: {', '.join(template_names())}"
            raise InputError(f"no template {template!r}{hint}")
        text = resources.files("simkit.templates").joinpath(f"{template}.yaml").read_text(encoding="utf-8")
        target = Path(f"{template}.yaml")
        try:
            with target.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            raise OutputError(f"{target}: exists already; rename or remove it first") from None
        except OSError as error:
            raise OutputError(f"{target}: {error.strerror}") from error
        section = re.search(r"^(uncertainty|sweep):", text, re.MULTILINE)
        command = section[1] if section else "run"
        print(f"wrote {target}; next: simkit {command} {target}")
