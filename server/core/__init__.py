"""The algorithm on the server's side: pure functions of a frozen state, and the coordinator of their retries.

Others use ``coordinator`` (Coordinator: what an engine drives), ``ask`` and ``tell`` (the two verbs), ``outcome``
(Outcome: what a round gave), ``state`` (ServerState), ``round_record`` (RoundRecord: what the history records of a
round), ``selection`` (who is drawn, and who takes over a lost slot) and ``points`` (rounds of evaluations:
search_about). Inside, ``attempt`` is one try at a round, ``masking`` the calls of secure aggregation, ``mean_of_rows``
what single rows make of the mean move, ``in_place`` rounds of clients that hold the parameters (the state's x is then
the trail of all step lengths), and ``guide`` keeps what directions follow.
"""
