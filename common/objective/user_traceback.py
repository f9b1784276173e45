"""Where the user's own code failed: a traceback without the frames of this program."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from zofedht.common.errors import ObjectiveError
from zofedht.common.plain_text import printable

__all__ = ["USER_ERRORS", "raised", "raised_by_objective", "user_place", "user_place_of", "user_traceback"]

# The top of a checkout, or site-packages/zofedht. Frames name files as they were found, so links are not resolved.
_TOP = Path(__file__).parents[2]
_OURS = tuple(f"{_TOP / wing}/" for wing in ("zofedht", "common", "client", "server", "experiments"))
_MOST_TEXT = 1000  # characters of an exception
_STANDARD = sysconfig.get_path("stdlib")
# Frames between ours and the user's: they say nothing about the failure.
_CARRIERS = ("<frozen importlib", f"{_STANDARD}/concurrent/", f"{_STANDARD}/importlib/")


USER_ERRORS = (Exception, SystemExit, GeneratorExit)
"""What may come out of the user's code: a script that was wrapped may end with ``sys.exit``, which ends no run."""


def raised(error: BaseException, *, with_text: bool = True) -> str:
    """Return the exception and its place on one line: ``raised ValueError: no such day (valve.py, line 12, in day)``.

    Without the exception's text the line holds nothing of a device's data, and may go to a server.
    """
    text = _text_of(error) if with_text else ""
    return f"raised {type(error).__name__}{': ' if text else ''}{text}{user_place(error)}"


def _text_of(error: BaseException) -> str:
    try:
        return printable(" ".join(str(error).split()), _MOST_TEXT)
    except USER_ERRORS:  # the text is the user's code, too
        return ""


def raised_by_objective(error: BaseException, what: str = "the objective", step: int | None = None) -> ObjectiveError:
    """Return the ObjectiveError of what ended an evaluation, in the local step ``step`` if there is one.

    An ObjectiveError that has a cause keeps its sentence; of any other exception the error names type and place.
    """
    if isinstance(error, ObjectiveError) and error.cause != ObjectiveError.cause:
        return ObjectiveError(str(error), public_text=error.public_text, cause=error.cause, step=step)
    public = f"{what} {raised(error, with_text=False)}"
    return ObjectiveError(f"{what} {raised(error)}", public_text=public, cause="raised", step=step)


def user_place(error: BaseException) -> str:
    """Return `` (FILE, line N, in FUNCTION)`` of the innermost frame of the user's code, or an empty text.

    FILE has no folder, since the line may go to the server.
    """
    return _place(list(traceback.extract_tb(error.__traceback__)))


def _place(stack: list[traceback.FrameSummary]) -> str:
    frames = [frame for frame in stack if _is_shown(frame)]
    mine = [frame for frame in frames if "site-packages" not in frame.filename and _STANDARD not in frame.filename]
    if not (mine or frames):
        return ""
    frame = (mine or frames)[-1]
    return f" ({Path(frame.filename).name}, line {frame.lineno}, in {frame.name})"


def user_place_of(frame: FrameType | None) -> str:
    """Return the place of the innermost frame of the user's code on a stack that runs, or an empty text."""
    return _place(list(traceback.extract_stack(frame))) if frame is not None else ""


def user_traceback(error: BaseException) -> str:
    """Return the traceback as Python prints it, chained exceptions included, without this program's frames.

    The text is empty when no frame is the user's.
    """
    told = traceback.TracebackException.from_exception(error)
    for part in _chain(told):
        part.stack = traceback.StackSummary.from_list([frame for frame in part.stack if _is_shown(frame)])
    return "".join(told.format()).rstrip() if any(part.stack for part in _chain(told)) else ""


def _is_shown(frame: traceback.FrameSummary) -> bool:
    return not frame.filename.startswith(_OURS) and not frame.filename.startswith(_CARRIERS)


def _chain(told: traceback.TracebackException | None) -> Iterator[traceback.TracebackException]:
    if told is not None:
        yield told
        yield from _chain(told.__cause__)
        yield from _chain(told.__context__)
