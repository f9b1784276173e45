"""Markdown tables."""

from __future__ import annotations

from zofedht.experiments.report.markdown import table


def test_a_bar_in_a_cell_is_one_cell():
    assert table(["a", "b"], [["E|g|", "2"]]).splitlines()[2] == "| E\\|g\\| | 2 |"
