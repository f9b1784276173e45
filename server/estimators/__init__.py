"""Estimators in the manner of scikit-learn: ``classifier`` (ZOFedClassifier) and ``regressor`` (ZOFedRegressor).

``shared`` is what both do: which rows are whose, how a fit begins and continues. ``weighted`` is the loss of rows that
may have weights.
"""
