"""Step sizes and the subspace weight: as the run config says, or found by the run where a key is ``auto``.

Other folders use the names below and import no module of this folder. A round is asked with ``weight`` and ``spec``;
``learn`` says what its replies teach, ``renew`` what a new Q changes. ``AutoState`` is all that the rules remember, and
part of the checkpoint. Inside, ``step_size`` finds step sizes, ``subspace_weight`` the weight, and ``rules`` joins
them. An ``Intervention`` is a change that nobody asked for by a number.
"""

from zofedht.server.auto.interventions import Intervention, count_interventions
from zofedht.server.auto.rules import AutoState, Learnt, Now, Replies, begin, learn, renew, spec, weight

__all__ = [
    "AutoState",
    "Intervention",
    "Learnt",
    "Now",
    "Replies",
    "begin",
    "count_interventions",
    "learn",
    "renew",
    "spec",
    "weight",
]
