"""The command line as tables, from the commands themselves."""

import re

import typer
from tables import table

from simkit.cli import app


def command_tables() -> str:
    """A section for each command: what it does, its arguments and options."""
    group = typer.main.get_command(app)
    parts = []
    for name, command in group.commands.items():
        parts += [f"## simkit {name}", _text(command.help)]
        arguments = [p for p in command.params if p.param_type_name == "argument"]
        options = [p for p in command.params if p.param_type_name == "option"]
        if arguments:
            rows = [(f"`{_metavar(p)}`", _text(p.help)) for p in arguments]
            parts.append(table(("argument", "meaning"), rows))
        if options:
            rows = [(_flags(p), _text(p.help)) for p in options]
            parts.append(table(("option", "meaning"), rows))
    return "\n\n".join(parts) + "\n"


def _text(help_text: str | None) -> str:
    """Help as Markdown: names such as TEMPLATE.yaml and --set as code."""
    text = " ".join((help_text or "").split())
    return re.sub(r"(?<![`\w])(--[a-z-]+(?: \w+\.\w+=\S*\w)?)", r"`\1`", text)


def _metavar(parameter) -> str:
    return parameter.metavar or parameter.name.upper()


def _flags(parameter) -> str:
    value = "" if parameter.is_flag else f" {_metavar(parameter)}"
    return ", ".join(f"`{flag}{value}`" for flag in parameter.opts)
