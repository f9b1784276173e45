"""CMA-ES over sites, as pure functions. It knows no file, no socket and no fleet.

Others use ``search`` (begin, ask, tell) and ``cells`` (cells_of: integers and choices).
``evolution`` is the strategy of one function, ``learning_rates`` its brakes under noise, ``sites`` how many sites a
generation is asked of, ``tables`` what is done about lost answers.
"""
