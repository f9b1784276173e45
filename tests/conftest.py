"""Where the large data sets are, for the tests that need them."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder shared/data beside the repository; skip the test where there is none."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the large data sets are not here: no folder shared/data beside the repository")
    return folder
