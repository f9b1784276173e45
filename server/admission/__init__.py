"""Who may take part in a run: rules of what a client says of itself, without Flower and without a network.

Others use ``refusal`` (who may join, by introduction and certified name), ``votes`` (whose word counts), ``revoked``
(who may no longer), ``places`` (for those who introduce themselves) and ``settled_rules`` (what the clients' files
decide).
"""
