"""Objectives: the base class, how they are loaded, scaled and compared between clients."""
