from __future__ import annotations

import subprocess
import sys

_SCRIPT = """
import numpy
from threadpoolctl import threadpool_info
from zofedht.common.machine.blas import one_thread
with one_thread():
    pass
import scipy.linalg
with one_thread():
    print({library["num_threads"] for library in threadpool_info()}, len(threadpool_info()))
"""


def test_a_library_that_is_loaded_later_is_limited():
    """SciPy brings a BLAS of its own; the controller is asked before and after."""
    environment = {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=True, env=environment)
    threads, libraries = done.stdout.rsplit(maxsplit=1)
    assert threads == "{1}"
    assert int(libraries) >= 1
