"""A page in the browser that shows one run, live or finished, from the files of its folder.

The page reads files alone, in a thread of its own, so a run does nothing for it, and a finished run looks the same.
Others use ``access`` (PageOptions: where the page is, and who may see it) and ``serving`` (show_page, watch).

Inside: ``tail`` reads what a file has grown by, ``view`` keeps the run and ``clients`` its table, ``thin`` draws fewer
points, ``updates`` says what a browser lacks, ``app`` answers requests, ``metrics`` has
the numbers for Prometheus, ``careful_http`` bounds connections.
"""
