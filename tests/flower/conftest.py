"""Flower is imported here once, past the one warning that its imports give."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    # typer, which flwr imports for its command line, uses names that click has deprecated.
    warnings.filterwarnings("ignore", r"'click\.", DeprecationWarning)
    import flwr.client
    import flwr.server
    import flwr.simulation  # noqa: F401
