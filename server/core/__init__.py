"""The algorithm on the server's side: pure functions of a frozen state, and the coordinator of their retries.

Others use ``coordinator`` (Coordinator: what an engine drives), ``rounds`` (ask, tell), ``state`` (ServerState),
``round_record`` (RoundRecord: what the history records of a round), ``selection`` (who is drawn, and who takes over a
lost slot) and ``points`` (rounds of evaluations: search_about). Inside, attempt is one try at a round and guide keeps
what directions follow.
"""
