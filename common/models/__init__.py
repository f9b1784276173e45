"""The built-in objectives: linear models, a network of one hidden layer and a quadratic.

Others use ``table`` (build_model), the classes in ``linear``, ``mlp`` and ``quadratic``, for the compiled loops
``losses`` and ``rows``, and for the estimators ``weighted_losses`` (weights of rows, losses of real targets).
"""
