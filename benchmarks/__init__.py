"""Measurements of speed and of bytes; each module is a command."""
