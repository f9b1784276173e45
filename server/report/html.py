"""report.html: one file that any browser shows, without scripts and without the network.

All text is escaped: names of clients and reasons of failures come from elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from zofedht.common.config.run_config import RunConfig
from zofedht.common.plain_text import printable
from zofedht.server.records.run_summary import lost_counts
from zofedht.server.report.curve import curve_svg
from zofedht.server.terminal.words import loss_word, number, outlier_text, percent, verdict_text

__all__ = ["SiteCost", "report_html"]

_MOST_SITES = 500  # rows of the table; more of them are in summary.json
_MOST_VALUES = 200
_MOST_CAUSES = 10
_MOST_TEXT = 300  # characters of a reason

_STYLE = """
body{font:15px/1.45 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}
p.verdict{font-size:1.1rem;padding:.6rem .8rem;border-left:6px solid}
p.yes{border-color:#009e73;background:#eef8f4}p.no{border-color:#d55e00;background:#fdf3ec}
table{border-collapse:collapse}th,td{padding:.2rem .7rem;text-align:right;border-bottom:1px solid #ddd}
th:first-child,td:first-child{text-align:left}td.better{color:#00735a}td.worse{color:#b34700}
svg{width:100%;max-width:640px}svg text{font:11px system-ui,sans-serif;fill:#444}
code{font-size:.85em;overflow-wrap:anywhere}.note{color:#555}
"""


@dataclass
class SiteCost:
    """What a site gave to the rounds, and what that cost."""

    slots: int = 0
    lost: int = 0
    seconds: float = 0.0
    bytes: int = 0

    def cells(self) -> list[str]:
        """Return the columns of a table."""
        return [f"{self.slots:,}", f"{self.lost:,}", f"{self.seconds:.4g}", f"{self.bytes / 1e6:.4g}"]


def report_html(
    name: str,
    summary: Mapping[str, Any],
    history: Sequence[Mapping[str, Any]],
    costs: Mapping[str, SiteCost],
    settings: Mapping[str, Any],
) -> str:
    """Return the report of the run called ``name``.

    ``settings`` is settings.toml as it is read, ``costs`` are those of the sites by name.
    """
    parts = [
        f'<p class="verdict {"yes" if summary["success"] else "no"}">{_text(_sentence(verdict_text(summary)))}</p>',
        *_headline(summary),
        *_curve(summary, history),
        *_values(settings, summary["at_bounds"]),
        *_sites(summary["comparison"], costs),
        *_spent(summary),
        *_failures(summary),
        *_how(summary),
    ]
    title = _text(f"Run {name}")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{_STYLE}</style></head>\n<body><h1>{title}</h1>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def _text(value: object) -> str:
    return escape(printable(str(value), _MOST_TEXT))


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of cells that are HTML already."""
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    lines = "\n".join(
        f"<tr>{''.join(cell if cell.startswith('<td') else f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"<table><tr>{titles}</tr>\n{lines}</table>"


def _headline(summary: Mapping[str, Any]) -> list[str]:
    before, after, last = (summary[f"{which}_train_loss"] for which in ("initial", "final", "last"))
    which = {"start": "the start", "best": "the best x", "last": "the last x"}[summary["x_is"]]
    what = loss_word(maximize=summary["maximize"])
    told = (
        f"Mean {what} {number(before)} at the start, {number(after)} at the returned x ({which}, after"
        f" {summary['x_round']} of {summary['rounds']} rounds)"
    )
    told += "." if summary["x_is"] == "last" else f", {number(last)} at the last x."
    notes = [f'<p class="note">{_text(note)}</p>' for note in summary["evaluation_notes"]]
    return [f"<p>{_text(told)}</p>", *notes]


def _curve(summary: Mapping[str, Any], history: Sequence[Mapping[str, Any]]) -> list[str]:
    rows = [row for row in history if row["train_loss_source"] == "full"]
    along = [0, *(row["evaluations"] for row in rows)]
    losses = [summary["initial_train_loss"], *(row["train_loss"] for row in rows)]
    rounds = [0, *(row["round"] + 1 for row in rows)]
    best = rounds.index(summary["x_round"]) if summary["x_round"] in rounds else None
    picture = curve_svg(along, losses, best, "evaluations")
    if not picture:
        return []
    what = loss_word(maximize=summary["maximize"])
    about = f"Mean {what} over all sites of each x that was evaluated in full. The dot is the returned x."
    return [f"<h2>{what.capitalize()}</h2>", picture, f'<p class="note">{about}</p>']


def _values(settings: Mapping[str, Any], at_bounds: Mapping[str, int]) -> list[str]:
    before, after = settings["before"], settings["after"]
    if set(after) == {"x"} and isinstance(after["x"], list):
        before, after = ({f"x[{index}]": one for index, one in enumerate(values["x"])} for values in (before, after))
    if not after:
        return ["<h2>Values</h2>", "<p>The numbers of x are in <code>x.npy</code>.</p>"]
    rows = []
    for name in list(after)[:_MOST_VALUES]:
        old, new = before.get(name), after[name]
        rows.append([_text(name), _text(_value(old)), _text(_value(new)), _text(_change(old, new))])
    parts = ["<h2>Values</h2>", _table(["parameter", "before", "after", "change"], rows)]
    if len(after) > len(rows):
        parts.append(f"<p>{len(after) - len(rows)} more are in <code>settings.toml</code>.</p>")
    if at_bounds and at_bounds["parameters"]:
        parts.append(f"<p>{at_bounds['parameters']} of {at_bounds['of']} parameters are at a bound.</p>")
    return parts


def _value(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _change(old: Any, new: Any) -> str:
    if isinstance(new, bool | str) or isinstance(old, bool | str) or old is None:
        return "" if old == new else "changed"
    return f"{new - old:+.4g}" if new != old else "none"


def _sites(found: Mapping[str, Any] | None, costs: Mapping[str, SiteCost]) -> list[str]:
    if found is None:
        return []
    rows = sorted(found["sites"], key=lambda row: float(row["gain"]))
    cells = []
    for row in rows[:_MOST_SITES]:
        low, high, reach = row["gain"] - (row["reach"] or 0.0), row["gain"] + (row["reach"] or 0.0), row["reach"]
        interval = "exact" if reach == 0.0 else f"{number(low)} to {number(high)}" if reach is not None else "-"
        kind = "better" if low > 0.0 else "worse" if high < 0.0 else ""
        change = "equal" if row["gain"] == 0.0 else "within the noise"
        told = f"{kind} by {percent(row['gain'], row['start'])}" if kind else change
        cells.append(
            [
                _text(row["site"]),
                number(row["start"]),
                number(row["x"]),
                number(row["last"]),
                number(row["gain"]),
                interval,
                f'<td class="{kind}">{escape(told)}</td>',
                *(costs.get(row["site"], SiteCost()).cells() if costs else []),
            ]
        )
    head = ["site", "start", "x", "last x", "gain", "95%", "x is"]
    head += ["slots", "lost", "seconds of slots", "MB of slots"] if costs else []
    parts = ["<h2>Sites</h2>", _table(head, cells)]
    if len(rows) > len(cells):
        parts.append(f"<p>{len(rows) - len(cells)} more sites, which gain more, are in <code>summary.json</code>.</p>")
    if found["lost"]:
        parts.append(f"<p>Without an answer for both: {_text(', '.join(found['lost']))}</p>")
    repeats = "once" if found["repeats"] == 1 else f"{found['repeats']} times"
    about = (
        f"The start, x and the last x were evaluated {repeats} more at the end of the run, on all samples of each site."
    )
    if alike := found["sites_like_these"]:
        about += (
            f" Mean gain at other sites of their kind: {number(alike[0])} to {number(alike[1])} (95%, Student's t)."
        )
    return [*parts, f'<p class="note">{escape(about)}</p>']


def _spent(summary: Mapping[str, Any]) -> list[str]:
    rows = [
        ["rounds", f"{summary['rounds']:,}"],
        ["evaluations of rounds", f"{summary['evaluations']:,}"],
        ["evaluations of full evaluations", f"{summary['full_evaluations']:,}"],
        ["seconds", f"{summary['seconds']:.4g}"],
        ["MB to the server", f"{summary['bytes_up'] / 1e6:.4g}"],
        ["MB to the clients", f"{summary['bytes_down'] / 1e6:.4g}"],
    ]
    if summary["privacy"]:
        rows.append(["epsilon of privacy", number(summary["privacy"]["epsilon"])])
    return ["<h2>Cost</h2>", _table(["what", "how much"], rows)]


def _failures(summary: Mapping[str, Any]) -> list[str]:
    lost = summary["lost"]
    told = [f"{count} were lost." for count in lost_counts(lost)]
    causes = ", ".join(f"{cause}: {count}" for cause, count in list(lost["causes"].items())[:_MOST_CAUSES])
    told += [f"Causes: {causes}."] if causes else []
    told += [f"Most often: {lost['reason']}"] if lost["reason"] else []
    for client, found in list(summary["outliers"].items())[:_MOST_CAUSES]:
        text = outlier_text(client, found, search=bool(summary["search"]))
        told.append(f"C{text.removeprefix('c')}.")
    for what, count in summary["interventions"].items():
        told.append(f"{what} was changed {'once' if count == 1 else f'{count} times'} by auto.")
    return ["<h2>Failures</h2>", *(f"<p>{_text(one)}</p>" for one in told or ["None."])]


def _how(summary: Mapping[str, Any]) -> list[str]:
    default = RunConfig().to_mapping()
    rows = [
        [f"<code>{escape(key)}</code>", f"<code>{_text(value)}</code>"]
        for key, value in summary["config"].items()
        if value != default.get(key)
    ]
    told = f"Engine {summary['engine']}; sha256 of x {summary['x_sha256']}. Keys with another value than their default:"
    return ["<h2>How it was made</h2>", f"<p>{_text(told)}</p>", _table(["key", "value"], rows)]
