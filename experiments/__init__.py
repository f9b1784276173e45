"""Studies as commands: ``python -m zofedht.experiments table1 | study | report | family | auto | theory``."""
