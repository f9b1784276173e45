"""How a run that has failed goes on: the command in the sentence of its error, or after the end of its process."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from zofedht.common.errors import ObjectiveError, RoundError
from zofedht.server.records.run_folder import RunFolder

__all__ = ["naming_the_way_on", "telling_of_its_end"]

# It says its sentence unless a line comes before the end of its input: a process that is killed writes none.
_LAST_WORD = """
read -r ended && exit
for file in "$0"/checkpoints/*.ckpt; do [ -e "$file" ] && kept=yes; done
if [ "$kept" ]; then echo "$1 $2"; else echo "$1 $3"; fi >&2
"""


@contextmanager
def naming_the_way_on(folder: RunFolder) -> Iterator[None]:
    """Add to the sentence of a run that has failed where it is kept, and how it goes on."""
    try:
        yield
    except (RoundError, ObjectiveError) as error:
        if folder.exists():
            error.args = (f"{error}; go on with {folder.way_on}",)
        raise


@contextmanager
def telling_of_its_end(folder: RunFolder) -> Iterator[None]:
    """Let a shell name the way on where the objective, or somebody else, ends this process within the block.

    A process that is gone says nothing. Does nothing where there is no shell.
    """
    shell = shutil.which("sh")
    if shell is None:
        yield
        return
    ended = "zofedht-server: error: the process of the run was ended by its objective, a crash or a kill;"
    others = "let clients join by `serve`, which goes on without a client that ends"
    kept = f"{folder.path} has what was finished: go on with {folder.way_on}, or {others}"
    nothing = f"nothing was finished before: mend the objective, or {others}"
    words = [shell, "-c", _LAST_WORD, str(folder.path), ended, kept, nothing]
    with subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True, text=True) as watcher:
        try:
            yield
        finally:
            with suppress(OSError):  # somebody has ended the watcher
                watcher.communicate("ended\n")
