"""What a local step costs: its baseline, the rates of the machine, and steps that differ in one thing."""
