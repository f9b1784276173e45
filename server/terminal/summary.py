"""The summary of a run as text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from zofedht.common.config.run_config import RunConfig
from zofedht.server.records.run_folder import RunFolder
from zofedht.server.records.run_summary import lost_counts, worth_skipping
from zofedht.server.terminal.words import number, outlier_text, verdict_text

__all__ = ["comparison_text", "summary_text"]

_CLIENTS_SHOWN = 5


def summary_text(summary: Mapping[str, Any], folder: RunFolder) -> str:
    """Draw the picture and return the summary as text, with the paths of all files."""
    picture = folder.draw()
    what = "value" if summary["maximize"] else "training loss"
    lines = [
        f"{what:15} {number(summary['initial_train_loss'])} -> {number(summary['final_train_loss'])}",
        *[f"{'':16}{note}" for note in summary["evaluation_notes"]],
        *_advice(summary),
        *_metrics(summary),
        f"verdict         {verdict_text(summary)}",
        f"cost            {summary['rounds']} rounds, {summary['evaluations']:,} evaluations,"
        f" {summary['bytes_up'] / 1e6:.2f} MB up, {summary['bytes_down'] / 1e6:.2f} MB down,"
        f" {summary['seconds']:.1f} s; {summary['full_evaluations']:,} evaluations more in full evaluations",
        *([f"search          {summary['search']['sentence']}"] if summary["search"] else []),
        *_changes(summary["interventions"]),
        *_others(summary["fallbacks"]),
        *_outliers(summary["outliers"], summary["config"], search=bool(summary["search"])),
        *_lost(summary["lost"], summary["config"]),
        *_bounds(summary["at_bounds"]),
        *_privacy(summary["privacy"]),
        *_masks(summary["slope_rounding"]),
        *_parameters(summary["tensors"]),
        f"{'x' if summary['tensors'] is None else 'trail':15} sha256 {summary['x_sha256']}",
        f"summary: {folder.shown(folder.summary_file)}",
        f"history: {folder.shown(folder.history_file)}",
        picture,
        f"report: {folder.shown(folder.report_file)}",
    ]
    return "\n".join(lines)


def comparison_text(names: Sequence[str], summaries: Sequence[Mapping[str, Any]]) -> str:
    """Return a table with a line for each run, and with accuracies if any run has one."""
    width = max(len("algorithm"), *(len(name) for name in names))
    has_accuracy = any(summary["test_accuracy"] is not None for summary in summaries)

    def line(name: str, loss: str, accuracy: str, evaluations: str, megabytes: str) -> str:
        column = f"  {accuracy:>13}" if has_accuracy else ""
        return f"{name:<{width}}  {loss:>16}{column}  {evaluations:>12}  {megabytes:>12}"

    lines = [line("algorithm", "final train loss", "test accuracy", "evaluations", "MB up + down")]
    for name, row in zip(names, summaries, strict=True):
        megabytes = f"{(row['bytes_up'] + row['bytes_down']) / 1e6:.2f}"
        loss, accuracy = number(row["final_train_loss"]), number(row["test_accuracy"])
        lines.append(line(name, loss, accuracy, f"{row['evaluations']:,}", megabytes))
    return "\n".join(lines)


def _metrics(summary: Mapping[str, Any]) -> list[str]:
    """Return a line for each metric of the last x but the loss."""
    known = {name: math.nan if value is None else value for name, value in summary["final_metrics"].items()}
    on_clients = "as the mean of the clients" if summary["config"]["objective"] else "on training rows"
    lines = []
    for name in dict.fromkeys(name.partition("_")[2] for name in known):
        places = (("train", on_clients), ("test", "on test rows"))
        shown = [f"{number(known[f'{of}_{name}'])} {where}" for of, where in places if f"{of}_{name}" in known]
        if name != "loss":
            lines.append(f"{name:<15} {', '.join(shown)}")
    return lines


def _advice(summary: Mapping[str, Any]) -> list[str]:
    before, after = summary["initial_train_loss"], summary["last_train_loss"]
    if summary["evaluation_notes"]:  # means over different clients do not compare
        return []
    sign = -1.0 if summary["maximize"] else 1.0
    if before is None or (after is not None and sign * after <= sign * before):  # JSON has no NaN: it is None
        return []
    went = "fell" if summary["maximize"] else "rose"
    last, config = f"{'':16}it {went} to {number(after)} in the end", RunConfig.from_mapping(summary["config"])
    if summary["search"]:
        return [f"{last}: no candidate was better; more rounds, or a larger batch-size, may help"]
    if config.step_is_auto:
        return [f"{last}: a larger radius where evaluations are noisy, or step-size as a number, may help"]
    return [f"{last}: a smaller step-size, or step-size=auto, which measures one, usually cures this"]


def _changes(counts: Mapping[str, int]) -> list[str]:
    shown = ", ".join(f"{what} {count} times" if count > 1 else f"{what} once" for what, count in counts.items())
    return [f"changed         {shown}; why is in the history"] if shown else []


def _others(slots: Mapping[str, int]) -> list[str]:
    shown = [f"{client} ({count})" for client, count in list(slots.items())[:_CLIENTS_SHOWN]]
    more = [f"{len(slots) - len(shown)} more"] if len(slots) > len(shown) else []
    text = ", ".join([*shown, *more])
    return [f"other draws     clients (slots): {text}; their moves were taken, why is in the history"] if shown else []


def _outliers(clients: Mapping[str, Mapping[str, float]], config: Mapping[str, Any], *, search: bool) -> list[str]:
    """Return a line for each client whose moves or values were outliers, and what bears them."""
    shown = [outlier_text(client, found, search=search) for client, found in list(clients.items())[:_CLIENTS_SHOWN]]
    if not shown:
        return []
    if len(clients) > _CLIENTS_SHOWN:
        shown.append(f"and {len(clients) - _CLIENTS_SHOWN} clients more")
    if config["aggregation"] == "mean":
        rules = "median or trimmed-mean" if search else "clipped, median or centered-clipping"
        shown.append(f"if that is not to be trusted: aggregation={rules}")
    return [f"{'outliers' if place == 0 else '':15} {text}" for place, text in enumerate(shown)]


def _lost(lost: Mapping[str, Any], config: Mapping[str, Any]) -> list[str]:
    """Return the lost slots and steps, the most frequent reason, and a hint."""
    if not (shown := lost_counts(lost)):
        return []
    lines = [f"lost            {' and '.join(shown)}; most often: {lost['reason']}"]
    if worth_skipping(lost, config["on-error"]):
        lines.append(
            f"                one failed evaluation costs its slot of {config['local-steps']} steps;"
            " with on-error=skip-step it costs its step alone"
        )
    return lines


def _bounds(at: Mapping[str, int]) -> list[str]:
    """Return how many parameters are at a bound, and a hint where most are."""
    if not at or not at["parameters"]:
        return []
    lines = [f"bounds          {at['parameters']} of {at['of']} parameters are at a bound"]
    if 2 * at["parameters"] > at["of"]:
        lines.append(
            "                if that is unexpected, try a smaller step-size, or a larger radius where F is noisy"
        )
    return lines


def _privacy(about: Mapping[str, Any]) -> list[str]:
    """Return what was spent, and whom and what it protects from whom."""
    if not about:
        return []
    of = f" of {about['most_epsilon']:g}" if about["most_epsilon"] else ""
    against = "the server" if about["privacy"] == "local" else "readers of x"
    spent = f"epsilon {about['epsilon']:.3g}{of} at delta {about['delta']:g}"
    return [f"privacy         {spent}, of {about['protects']} against {against}"]


def _parameters(tensors: Mapping[str, Any] | None) -> list[str]:
    """Return how many parameters the clients hold, and their digest, which export compares."""
    if tensors is None:
        return []
    known = f", digest {tensors['present']} after round {tensors['present_round']}" if tensors["present"] else ""
    return [f"parameters      {tensors['dimension']:,} in place at the clients{known}"]


def _masks(rounding: float) -> list[str]:
    return (
        [f"secure sums     the server saw sums alone; each slope was rounded by at most {rounding:.2g}"]
        if rounding
        else []
    )
