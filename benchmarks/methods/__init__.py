"""How many evaluations a method needs: laws of the probe, stiff directions, and searches over few parameters."""
