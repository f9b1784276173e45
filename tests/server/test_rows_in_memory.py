"""``run`` on a DataFrame, on (X, y) and on files: the same rows give the same x."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zofedht import ConfigError, DataError, ZOFedClassifier, run
from zofedht.server.__main__ import main

pd = pytest.importorskip("pandas", reason="pandas is not installed; DataFrames cannot be made")

_KEYS: dict[str, Any] = {"num_clients": 3, "rounds": 2, "local_steps": 3, "kernel": "numpy", "seed": 5}


@pytest.fixture(scope="module")
def frame() -> Any:
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(60, 3))
    return pd.DataFrame(rows, columns=["heat", "flow", "wind"]).assign(label=(rows[:, 0] > 0).astype(int))


def test_a_frame_trains_as_its_files_do(frame: Any, tmp_path: Path):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed; it reads Parquet files")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame.to_parquet(tmp_path / "rows.parquet")
    by_frame = run(dataset=frame, **_KEYS)
    assert "test_accuracy" in by_frame.metrics
    for other in (tmp_path / "rows.csv", tmp_path / "rows.parquet", (frame.drop(columns="label"), frame["label"])):
        result = run(dataset=other, **_KEYS)
        np.testing.assert_array_equal(result.x, by_frame.x)
        assert result.metrics == by_frame.metrics


def test_features_choose_and_order_the_columns(frame: Any):
    one = run(dataset=frame, features="wind,heat", **_KEYS)
    other = run(dataset=frame.assign(note="text")[["note", "label", "heat", "wind"]], features="wind,heat", **_KEYS)
    np.testing.assert_array_equal(one.x, other.x)


def test_a_wrong_frame_is_one_sentence(frame: Any):
    with pytest.raises(DataError, match="the DataFrame must hold numbers, got column 'note'"):
        run(dataset=frame.assign(note="text"), **_KEYS)


def test_a_pair_in_two_orders_is_refused(frame: Any):
    """Rows are paired by their place: an index that says otherwise would mix the labels."""
    rows, labels = frame.drop(columns="label"), frame["label"]
    with pytest.raises(DataError, match="the same index in another order"):
        run(dataset=(rows, labels.iloc[::-1]), **_KEYS)
    turned = run(dataset=(rows, labels.iloc[::-1].reset_index(drop=True).loc[rows.index]), **_KEYS)
    as_arrays = run(dataset=(rows.to_numpy(), labels.to_numpy()[::-1]), **_KEYS)
    np.testing.assert_array_equal(turned.x, as_arrays.x)


def test_a_masked_value_is_no_value(frame: Any):
    rows, labels = frame.drop(columns="label").to_numpy(), frame["label"].to_numpy()
    with pytest.raises(DataError, match="masked values"):
        run(dataset=(np.ma.masked_greater(rows, 1.0), labels), **_KEYS)
    whole = run(dataset=(np.ma.masked_greater(rows, 1e9), labels), **_KEYS)
    np.testing.assert_array_equal(whole.x, run(dataset=(rows, labels), **_KEYS).x)


def test_a_run_on_a_frame_goes_on_in_python_only(frame: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run(dataset=frame, out=tmp_path / "out", **_KEYS)
    assert main(["resume", str(tmp_path / "out"), "--set", "rounds=3"]) == 2
    assert "live in Python" in capsys.readouterr().err


def test_the_classifier_knows_the_columns_of_a_frame(frame: Any):
    rows = frame.drop(columns="label")
    model = ZOFedClassifier(rounds=3, random_state=0).fit(rows, frame["label"])
    assert list(model.feature_names_in_) == ["heat", "flow", "wind"]
    np.testing.assert_array_equal(model.predict(rows), model.predict(rows.copy()))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(rows[["flow", "heat", "wind"]])


@pytest.mark.parametrize(
    ("rows", "shown"),
    [([1, 2], r"\[1, 2\]"), (5, "5"), (None, "None"), (np.ones((99, 3)), "an object of type ndarray")],
)
def test_a_dataset_of_another_kind_is_one_sentence(rows: Any, shown: str):
    with pytest.raises(ConfigError, match=rf"a file, a DataFrame or a pair \(X, y\), got {shown}$"):
        run(dataset=rows)


def test_lists_train_as_arrays_do(frame: Any):
    X, y = frame[["heat", "flow", "wind"]].to_numpy(), frame["label"].to_numpy()
    keys: dict[str, Any] = {"num_clients": 2, "rounds": 2, "seed": 1}
    lists = run(dataset=(X.tolist(), ["hot" if label else "cold" for label in y]), positive_labels="hot", **keys)
    assert lists.x.tobytes() == run(dataset=(X, y), positive_labels="1", **keys).x.tobytes()
