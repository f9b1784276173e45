"""Sites as one function that any optimiser can drive: ``from zofedht import Fleet``.

``fleet`` is the door; ``questions`` asks a batch and asks again for what is lost; ``ledger`` keeps every answer and
replays them; ``sites`` is all that these know of where the sites are: ``local`` or ``network``, which waits as
``listening`` says.
"""
