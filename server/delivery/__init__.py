"""What goes to whom: which host holds Q and x, what it is sent in their place, and the bytes.

Others use ``holdings`` (Holdings: completes a broadcast with what its host lacks), ``fallbacks`` (clients along other
directions) and ``traffic`` (bytes). Inside, ``trail`` keeps the mean step lengths of the latest rounds, from which a
host follows x.
"""
