"""The server: it asks clients for local steps and averages their moves (Algorithm 1, lines 2-9 and 19-22).

``core`` is the algorithm and knows no file and no network, ``rows`` what single rows of the table keep, ``aggregation``
screens replies and makes one move of many, ``delivery`` knows which host holds what, ``evaluation`` asks for the loss
of x, ``auto`` finds step sizes and the subspace weight, ``records`` writes the files of a run, ``terminal`` says how it
goes, and ``conduct`` joins them to a run over any engine. Engines are ``inprocess``, ``flower`` (simulation, SuperLink)
and ``grpc`` (resident clients, with certificates; ``admission`` says who may join). Ways to call it: ``minimise``
(run), ``estimators`` (ZOFedClassifier), ``fleet`` (Fleet; ``minimizers`` and ``cma`` search on it), and the command
``python -m zofedht.server``, whose actions are in ``commands``. ``privacy`` says how much privacy a run has spent, and
``certificates`` makes those of server and clients.
"""
