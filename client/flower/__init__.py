"""The client as Flower sees it: translate, delegate, translate back.

Others use ``numpy_client`` (ZofedhtClient), ``app`` (the ClientApp) and ``message_app`` (``train`` and ``evaluate`` for
other people's ClientApps).
"""
