"""Measurements of speed, bytes and evaluations; most modules are commands.

``local_step`` is the time of a step and ``rounds`` the time of a round, on every engine. The folders have what goes
into details: ``steps`` what a local step costs, ``servers`` what a round costs the server, ``messages`` what crosses
the wire, ``methods`` how many evaluations a method needs.
"""
