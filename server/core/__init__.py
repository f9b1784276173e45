"""The algorithm on the server's side: pure functions of a frozen state, and the coordinator of their retries.

Others use ``coordinator`` (Coordinator: what an engine drives), ``rounds`` (ask, tell), ``state`` (ServerState),
``round_record`` (RoundRecord: what the history records of a round), ``selection`` (who is drawn, and who takes over a
lost slot), ``fallbacks`` (clients along other directions), ``points`` (rounds of evaluations: search_about) and
``traffic`` (bytes). Inside, attempt is one try at a round, server_step moves x along the mean of the moves, guide keeps
what directions follow, and holdings and trail know which host holds Q and x.
"""
