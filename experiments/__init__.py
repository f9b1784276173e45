"""The paper's studies as commands: ``python -m zofedht.experiments table1 | study | report | auto | theory``."""
