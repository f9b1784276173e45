"""What keeps a client's numbers its own: its secret, its keys, and its masks.

Others use ``secret_file`` (what a device draws noise from), ``identity`` (Identity: whose a public key is) and
``masks`` (Masks: a party of secure aggregation).
"""
