"""The server's side. Importing it settles what Ray prints, since Ray reads this as soon as it starts."""

import os

# Ray announces a coming change of a GPU setting with a FutureWarning unless told that we know.
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
