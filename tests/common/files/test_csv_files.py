"""Tables as people have them: read where that is certain, else a sentence that names what was seen."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from zofedht.common.errors import DataError
from zofedht.common.files.csv_files import read_csv
from zofedht.common.files.dataset_files import read_file
from zofedht.common.files.reading import FileRules, RawRows

_PLAIN = "temp,flow,label\n28.25,0.75,1\n9.5,1.25,0\n21,0.5,0\n"
_FEATURES = np.array([[28.25, 0.75], [9.5, 1.25], [21.0, 0.5]])


def _read(folder: Path, text: str | bytes, **rules: str) -> RawRows:
    path = folder / "rows.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_csv(path, FileRules(**rules))


@pytest.mark.parametrize(
    "text",
    [
        _PLAIN,
        _PLAIN.replace(",", ";"),
        _PLAIN.replace(",", "\t"),
        _PLAIN.replace(",", "|"),
        _PLAIN.replace(",", ";").replace(".", ","),
        "sep=;\n" + _PLAIN.replace(",", ";"),
        "# exported by logger 7, it's\n" + _PLAIN,
        "# temp,flow,label\n" + _PLAIN.partition("\n")[2],
        _PLAIN.replace("9.5", "# a pause\n9.5"),
        _PLAIN.replace("temp", '"temp"').replace("28.25", '"28.25"'),
        _PLAIN.replace("\n", "\r\n"),
        _PLAIN.replace("\n", ",\n"),
        _PLAIN.replace("\n", "\n\n"),
        "\ufeff" + _PLAIN,
        _PLAIN.encode("utf-16"),
        ",temp,flow,label\n4,28.25,0.75,1\n2,9.5,1.25,0\n0,21,0.5,0\n",
        "Unnamed: 0,temp,flow,label\n0,28.25,0.75,1\n1,9.5,1.25,0\n2,21,0.5,0\n",
        "temp,flow,label\n28.25,0.75,True\n9.5,1.25,False\n21,0.5,False\n",
        _PLAIN.replace("\n", ",\n").replace("label,", "label"),
        _PLAIN.replace("\n", "\r"),
    ],
    ids=range(20),
)
def test_every_certain_notation_gives_the_same_rows(tmp_path: Path, text: str | bytes) -> None:
    part = _read(tmp_path, text)
    np.testing.assert_array_equal(part.features, _FEATURES)
    np.testing.assert_array_equal(part.labels, [1, 0, 0])
    assert (part.names, part.label) == (("temp", "flow"), "label")


def test_a_quoted_name_may_go_over_two_lines(tmp_path: Path) -> None:
    part = _read(tmp_path, _PLAIN.replace("temp", '"temp\nC"'))
    np.testing.assert_array_equal(part.features, _FEATURES)
    assert part.names == ("temp\nC", "flow")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (_PLAIN.replace("1.25", ""), ("an empty cell on line 3, column 2 ('flow')", "fill it in")),
        (_PLAIN.replace("1.25", "NA"), ("'NA' on line 3, column 2 ('flow')",)),
        (_PLAIN.replace("1.25", "?"), ("'?' on line 3, column 2 ('flow')",)),
        (_PLAIN.replace("1.25", "wet"), ("'wet' on line 3, column 2 ('flow')", "features")),
        ("a;b\n1,234;0\n2,345;1\n", ("in one way", "'1,234' on line 2, column 1 ('a')", "thousands")),
        ("a;b\n1,23;0\n2.5;1\n", ("in one way", "'1,23' on line 2", "'2.5' on line 3")),
        ("label,temp,label\n1,2,0\n0,3,1\n", ("one column that may be the label", "'label' (column 3)")),
        ("target,temp,label\n1,2,0\n0,3,1\n", ("'target' (column 1) and 'label' (column 3)", "label-column")),
        ("a,,label\n1,2,0\n0,3,1\n", ("a name over each column", "column 2")),
        ("1,2,7\n5,5,0\n6,6,1\n7,7,0\n", ("csv-header", "7 as the label of its first line")),
        ("# note\n" + _PLAIN.replace("1.25", "x"), ("'x' on line 4, column 2",)),
        ('"temp\nC",b\nx,1\n', ("'x' on line 3, column 1",)),
        (_PLAIN.replace("9.5", "#N/A"), ("'#N/A' on line 3, column 1 ('temp')", "fill it in")),
        (_PLAIN.replace("0.5,0", "0.5,#DIV/0!"), ("'#DIV/0!' on line 4, column 3 ('label')", "fill it in")),
        (_PLAIN.replace("28.25", '"28,250.00"'), ("'28,250.00' on line 2", "nothing between thousands")),
        (_PLAIN.replace("28.25", "28 250"), ("'28 250'", "nothing between thousands")),
        (_PLAIN.replace("28.25", "$28.25"), ("'$28.25'", "no unit")),
        (_PLAIN.replace("28.25", "28.25 kg"), ("'28.25 kg'", "no unit")),
        (_PLAIN.replace("28.25", "2024-01-03"), ("'2024-01-03'", "label-column=temp")),
        ("Readings of logger 7\n\n" + _PLAIN, ("got 3 on line 3", "begin the lines above the table with #")),
        (_PLAIN.encode("utf-16-le"), ("zero bytes", "save it again as CSV in UTF-8")),
        (_PLAIN.encode("utf-32"), ("zero bytes", "UTF-32")),
        (_PLAIN.encode() + b"\0\0", ("zero bytes",)),
        (gzip.compress(_PLAIN.encode()), ("what gzip has compressed", "rename it to 'rows.csv.gz'")),
        (_PLAIN.replace("temp", "Größe").encode("latin-1"), ("UTF-8", "save it again")),
        (_PLAIN.replace(",", " "), ("got 1 column", "separate the cells by commas, semicolons, tabs or bars")),
        ("label\n1\n0\n", ("got 1 column",)),
        ("temp,flow,label\n1;2;0\n3;4;1\n", ("got 3 on line 2", "write ',' in the other lines, too")),
        ('temp,label\n"a",28.25,1\n"b",9.5,0\n', ("got 3 on line 2", "name every column", "R leaves out")),
    ],
    ids=range(29),
)
def test_what_is_not_certain_is_named(tmp_path: Path, text: str | bytes, words: tuple[str, ...]) -> None:
    with pytest.raises(DataError) as caught:
        _read(tmp_path, text)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("header", ["0,1,2", ",0,1,2"])
def test_a_header_that_counts_the_columns_is_a_header(tmp_path: Path, header: str) -> None:
    extra = header.count(",") == 3
    rows = [(28.25, 0.75, 1), (9.5, 1.25, 0), (21, 0.5, 0)]
    lines = [",".join(map(str, ((place, *row) if extra else row))) for place, row in enumerate(rows)]
    part = _read(tmp_path, "\n".join([header, *lines]))
    np.testing.assert_array_equal(part.features, _FEATURES)
    assert part.names == ("0", "1")


def test_the_header_is_what_the_config_says(tmp_path: Path) -> None:
    text = "400,402,404\n1,2,0\n3,4,1\n5,6,0\n"
    assert _read(tmp_path, text, csv_header="yes").names == ("400", "402")
    assert len(_read(tmp_path, text, csv_header="no").labels) == 4


def test_the_label_column_is_what_the_config_says(tmp_path: Path) -> None:
    text = "target,temp,label\n1,2.5,0\n0,3.5,1\n"
    part = _read(tmp_path, text, label_column="target")
    np.testing.assert_array_equal(part.labels, [1, 0])
    assert part.names == ("temp", "label")
    np.testing.assert_array_equal(_read(tmp_path, "1,2.5\n0,3.5\n", label_column="1").labels, [1, 0])
    with pytest.raises(DataError, match="one column 'answer'"):
        _read(tmp_path, text, label_column="answer")


def test_named_features_leave_text_columns_alone(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("site,temp,flow,label\nA7,28.25,0.75,1\nB1,9.5,1.25,0\nC3,21,0.5,0\n")
    part = read_file(path, rules=FileRules(features="Flow,temp"))
    np.testing.assert_array_equal(part.features, _FEATURES[:, ::-1])
    with pytest.raises(DataError, match="one column 'wind'"):
        read_file(path, rules=FileRules(features="temp,wind"))


def test_a_column_that_counts_the_rows_is_told(tmp_path: Path) -> None:
    assert "counts the rows" in _read(tmp_path, "id,temp,label\n1,5,0\n2,5,1\n3,6,0\n").notes[0]
    assert not _read(tmp_path, _PLAIN).notes


def test_columns_of_one_name_are_told(tmp_path: Path) -> None:
    told = _read(tmp_path, "temp,a,Temp,label\n7,5,1,0\n3,5,2,1\n4,6,5,0\n").notes
    assert told == ("columns 1, 3 are all named 'temp' and taken as features; leave copies out",)


@pytest.mark.parametrize(("text", "first"), [("1 0:5 2:7\n0 1:3\n", 0), ("1 2:7\n0 1:3\n", 1)])
def test_svmlight_tells_what_it_saw(tmp_path: Path, text: str, first: int) -> None:
    path = tmp_path / "rows.svm"
    path.write_text(text)
    part = read_file(path)
    assert part.indices == (min(first, 1), 2)
    assert part.notes == (f"indices count from {first}",)
    from_zero = read_file(path, rules=FileRules(svmlight_indices="from-0"))
    np.testing.assert_array_equal(from_zero.features.toarray()[:, 1:], [[0, 7], [3, 0]])
    if first == 0:
        with pytest.raises(DataError, match="count its indices from 1"):
            read_file(path, rules=FileRules(svmlight_indices="from-1"))


def test_a_table_under_the_name_of_svmlight_lines_is_told(tmp_path: Path) -> None:
    (tmp_path / "rows.txt").write_text(_PLAIN)
    with pytest.raises(DataError, match=r"name the file \.csv if it is a table"):
        read_file(tmp_path / "rows.txt")


_TEXTS = "temp,flow,label\n28.25,0.75,Yes\n9.5,1.25, no\n21,0.5,no\n"


def test_labels_that_are_texts_need_positive_labels(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"got 'Yes', 'no' in column 3 \('label'\); set positive-labels .*label-column"):
        _read(tmp_path, _TEXTS)


@pytest.mark.parametrize(("positive", "labels"), [("yes", [1, 0, 0]), ("NO", [0, 1, 1]), ("yes,no", [1, 1, 1])])
def test_named_texts_count_as_1(tmp_path: Path, positive: str, labels: list[int]) -> None:
    for text in (_TEXTS, _TEXTS.replace(",", ";").replace(".", ",")):
        part = _read(tmp_path, text, positive_labels=positive)
        np.testing.assert_array_equal(part.features, _FEATURES)
        assert (part.labels.tolist(), part.classes) == (labels, ("Yes", "no"))


def test_a_column_of_texts_may_be_the_label_by_name(tmp_path: Path) -> None:
    rules = {"label_column": "state", "positive_labels": "hot"}
    part = _read(tmp_path, "state,temp\nhot,2\ncold,1\n", **rules)
    assert (part.labels.tolist(), part.names) == ([1, 0], ("temp",))


def test_a_text_label_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="an empty cell on line 3, column 3"):
        _read(tmp_path, _TEXTS.replace("1.25, no", "1.25,"), positive_labels="yes")


def test_quoted_decimal_commas_are_numbers(tmp_path: Path) -> None:
    text = 'temp,flow,label\n"28,25","0,75",1\n"9,5","1,25",0\n21,"0,5",0\n'
    np.testing.assert_array_equal(_read(tmp_path, text).features, _FEATURES)


@pytest.mark.parametrize("index", ["", "unnamed: 0"])
def test_a_label_is_numbered_in_the_file_and_not_in_what_is_read_of_it(tmp_path: Path, index: str):
    """Columns of no use are left out first: an index, and what ``features`` does not name."""
    path = tmp_path / "rows.csv"
    path.write_text(f"{index},a,b,lab,c\n0,.5,.6,1,.7\n1,.1,.2,0,.3\n2,.8,.9,1,.4\n")
    for features in ("auto", "a,c"):
        part = read_csv(path, FileRules(label_column="4", features=features))
        assert part.label == "lab"
        assert part.labels.tolist() == [1.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b,y\n1,5,2,5,1\n0,5,1,5,0\n", "if its numbers have decimal commas, separate the cells by semicolons"),
        ("a,b,y\n1,2,1\n1,2,spam\n", "number all labels, or set positive-labels to the texts of class 1"),
    ],
)
def test_the_way_out_fits_what_was_seen(tmp_path: Path, text: str, words: str):
    with pytest.raises(DataError, match=words):
        _read(tmp_path, text)


def test_a_count_of_columns_must_be_the_files(tmp_path: Path):
    path = tmp_path / "rows.csv"
    path.write_text(_PLAIN)
    assert read_file(path, rules=FileRules(features="2")).features.shape == (3, 2)
    with pytest.raises(DataError, match="must have the 2,000,000,000 columns of features, got 2; set features to auto"):
        read_file(path, rules=FileRules(features="2000000000"))
