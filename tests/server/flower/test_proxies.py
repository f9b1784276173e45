"""What has become of a client, without Flower's and Ray's words for it."""

from __future__ import annotations

import re

import pytest

from zofedht.common.errors import RoundError
from zofedht.server.flower.proxies import plainly

_FLOWER = "Message contains an Error (reason: {}). It originated during client-side execution of a message."
_RAISED = """<class 'ray.exceptions.RayTaskError(ClientAppException)'>:<'ray::ClientAppActor.run() (pid=3)
  File "ray_actor.py", line 65, in run
    raise ClientAppException(str(ex)) from ex
flwr.clientapp.client_app.ClientAppException:\x20
Exception ClientAppException occurred. Message: objective 'own:Mine': no module named 'own' can be imported'>"""


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("<class 'ray.exceptions.ActorDiedError'>:<'The actor died\n\tpid: 3'>", "its process died"),
        ("<class 'ray.exceptions.OutOfMemoryError'>:<'...'>", "memory of its machine ran out"),
        ("<class 'ray.exceptions.ActorDiedError'>:<'killed by memory pressure'>", "memory of its machine ran out"),
        ("<class 'ray.exceptions.GetTimeoutError'>:<''>", "no answer within round-timeout"),
        ("Error: Message Unavailable - The requested message (a) could not be found", "no answer within round-timeout"),
        (_RAISED, "objective 'own:Mine': no module named 'own' can be imported"),
        ("the node is tired (again)", "the node is tired (again)"),
    ],
)
def test_flowers_words_are_translated(reason: str, said: str):
    assert said in plainly(ValueError(_FLOWER.format(reason)))
    assert not re.search("Message contains|Exception|ray", plainly(ValueError(_FLOWER.format(reason))))


def test_other_errors_say_what_they_say():
    assert plainly(RoundError("nobody is there")) == "nobody is there"
    assert plainly(TimeoutError()) == "TimeoutError"
