"""The end of a run in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from server.run_folder import RunFolder

__all__ = ["summary_text"]

_CLIENTS_SHOWN = 5


def summary_text(summary: Mapping[str, Any], folder: RunFolder) -> str:
    """Draw the picture and return the summary in a few lines, with the places of all files."""
    picture = folder.draw()
    lines = [
        f"training loss   {_number(summary['initial_train_loss'])} -> {_number(summary['final_train_loss'])}",
        f"accuracy        {_number(summary['final_train_accuracy'])} on training rows,"
        f" {_number(summary['test_accuracy'])} on test rows",
        f"cost            {summary['rounds']} rounds, {summary['evaluations']:,} evaluations,"
        f" {summary['bytes_up'] / 1e6:.2f} MB up, {summary['bytes_down'] / 1e6:.2f} MB down,"
        f" {summary['seconds']:.1f} s",
        *_changes(summary.get("interventions", {})),
        *_others(summary.get("fallbacks", {})),
        f"x               sha256 {summary['x_sha256']}",
        f"summary: {folder.summary_file}",
        f"history: {folder.history_file}",
        picture,
    ]
    return "\n".join(lines)


def _changes(counts: Mapping[str, int]) -> list[str]:
    shown = ", ".join(f"{what} {count} times" if count > 1 else f"{what} once" for what, count in counts.items())
    return [f"auto changed    {shown}; why is in the history"] if shown else []


def _others(slots: Mapping[str, int]) -> list[str]:
    shown = [f"{client} ({count})" for client, count in list(slots.items())[:_CLIENTS_SHOWN]]
    more = [f"{len(slots) - len(shown)} more"] if len(slots) > len(shown) else []
    text = ", ".join([*shown, *more])
    return [f"other draws     clients (slots): {text}; their moves were taken, why is in the history"] if shown else []


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
