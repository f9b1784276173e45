"""One call for a whole run in this process: ``from zofedht import run``.

Others use ``run`` (run) and ``result`` (RunResult). ``arguments`` makes objectives and the config of what the caller
gave, ``outcome`` the message.
"""
