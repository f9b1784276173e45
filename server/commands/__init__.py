"""What each ``zofedht-server`` command does with its arguments. Others use ``table`` (ACTIONS)."""
