"""Figures, tables and claims from the folders of a study.

Others use ``command`` (write_report), ``docs_page`` (fill_page), ``markdown`` (table) and ``pictures``.
"""
