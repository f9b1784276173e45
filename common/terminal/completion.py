"""Completion of commands, options and run config keys in a shell, by the library shtab."""

from __future__ import annotations

import argparse

from zofedht.common.errors import MissingExtraError

__all__ = ["add_completion", "completion_script", "keys_complete"]

_FUNCTION = "_zofedht_keys"
_CALLED = {"bash": _FUNCTION, "zsh": _FUNCTION, "fish": f"({_FUNCTION})"}  # as each shell calls a function


def add_completion(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command that prints a script for the user's shell."""
    command = commands.add_parser(
        "completion",
        help="print a script that completes commands and keys in your shell",
        description="Print a script for your shell; docs/commands.md says where it goes.",
    )
    command.add_argument("shell", choices=tuple(_CALLED))


def keys_complete(action: argparse.Action) -> None:
    """Let the values of an option be completed with the keys of the run config."""
    action.complete = dict(_CALLED)  # type: ignore[attr-defined]  # what shtab looks for


def completion_script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return the script of a program for a shell. Raises MissingExtraError without shtab."""
    try:
        import shtab
    except ImportError as error:
        raise MissingExtraError(
            "completion needs the library shtab; install it with `pip install 'zofedht[completion]'`"
        ) from error
    from zofedht.common.config.reference import key_rows  # --help needs none of it

    words = " ".join(f"{row.key}=" for row in key_rows())
    preamble = {
        "bash": f'{_FUNCTION}() {{\n  compopt -o nospace\n  compgen -W "{words}" -- "$1"\n}}\n',
        "zsh": f"{_FUNCTION}() {{\n  compadd -S '' -- {words}\n}}\n",
        "fish": f"function {_FUNCTION}\n  printf '%s\\n' {words}\nend\n",
    }
    return str(shtab.complete(parser, shell, preamble=preamble[shell]))
