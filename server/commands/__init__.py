"""What each ``zofedht-server`` command does with its arguments.

Others use ``table`` (ACTIONS). ``running`` has run, serve and resume, ``comparing`` compare and plan, ``showing`` the
others, and ``arguments`` what several commands share.
"""
