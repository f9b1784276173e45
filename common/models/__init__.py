"""The built-in objectives: linear models, a network of one hidden layer and a quadratic.

Others use ``table`` (build_model), the classes in ``linear``, ``mlp`` and ``quadratic``, and for the compiled loops
``losses`` and ``rows``.
"""
