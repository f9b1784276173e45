"""Markdown to the one page."""

from __future__ import annotations

from zofedht.experiments.report.markdown import page, table


def test_a_bar_in_a_cell_is_one_cell():
    text = table(["a", "b"], [["E|g|", "2"]])
    assert text.splitlines()[2] == "| E\\|g\\| | 2 |"
    assert "<tr><td>E|g|</td><td>2</td></tr>" in page("t", text, {})


def test_text_is_escaped_and_marked_up():
    html = page("a < b", "# A & B\n\n**x** `<y>` z < w\n\n- one\n- two", {})
    assert "<title>a &lt; b</title>" in html
    assert "<h1>A &amp; B</h1>" in html
    assert "<p><b>x</b> <code>&lt;y&gt;</code> z &lt; w</p>" in html
    assert "<ul><li>one</li><li>two</li></ul>" in html


def test_a_picture_is_embedded():
    assert 'src="data:image/png;base64,AQID"' in page("t", "![loss](a.png)", {"a.png": b"\x01\x02\x03"})
