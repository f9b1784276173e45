"""What the tests of the estimators share."""

from __future__ import annotations

__all__ = ["DRAWN"]

DRAWN = dict.fromkeys(
    (
        "check_sample_weight_equivalence_on_dense_data",
        "check_sample_weight_equivalence_on_sparse_data",
    ),
    "minibatches are drawn at random: repeated rows are other draws than heavier ones, as in SGDClassifier",
)
"""Checks that no estimator passes which draws its rows."""
