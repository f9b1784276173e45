"""The client as Flower sees it: translate, delegate, translate back.

Others use ``numpy_client`` (ZofedhtClient) and ``app`` (the ClientApp).
"""
