"""The client as Flower sees it."""
