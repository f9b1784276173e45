"""What client and server share to keep a client's numbers private.

Others use ``masking`` (secure aggregation: masks that cancel in a sum), ``private_draws`` (the noise of a device)
and ``renyi`` (what noisy slopes spend).
"""
