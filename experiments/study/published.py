"""Losses in the authors' own experiment logs, as far as this project knows them.

Source: page `algorithm.md` of the project's design notes, which lists the best final training losses of the
published experiments: 48,000 rows of MNIST, 500 evaluations a row, alpha = .3, tau = 5. The paper
itself was not at hand.
"""

from __future__ import annotations

from zofedht.experiments.study.cells import Panel

__all__ = ["PUBLISHED", "PUBLISHED_ROWS"]

PUBLISHED_ROWS = 48_000

PUBLISHED: dict[Panel, dict[str, float]] = {
    Panel("mnist", "logistic", "iid"): {"zofedavg-sgd": 0.4060, "zofedht": 0.3818, "zofedavg-gd": 0.3872},
    Panel("mnist", "logistic", "thirds"): {"zofedavg-sgd": 0.3778, "zofedht": 0.3916, "zofedavg-gd": 0.3916},
    Panel("mnist", "svm-squared-hinge", "iid"): {"zofedavg-sgd": 0.4451, "zofedht": 0.2521, "zofedavg-gd": 0.3657},
    Panel("mnist", "svm-squared-hinge", "thirds"): {"zofedavg-sgd": 0.2962, "zofedht": 0.2741, "zofedavg-gd": 0.3949},
}
"""Best training loss by panel and algorithm."""
