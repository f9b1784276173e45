"""The algorithm on the server's side: pure functions of a frozen state, and the coordinator of their retries.

Others use ``coordinator`` (Coordinator: what an engine drives), ``rounds`` (ask, tell), ``state`` (ServerState),
``record`` (RoundRecord: a line of the history), ``start`` (Start), ``selection`` (who is drawn), ``aggregation``
(Failure), ``combine`` (outliers), ``evaluation`` and ``figures`` (full evaluations), ``fallbacks`` (clients along other
directions), ``replays`` (slopes to moves) and ``traffic`` (bytes). Inside, holdings and trail know which host holds Q
and x.
"""
