"""CMA-ES over sites, as pure functions: ``search.ask`` and ``search.tell``. Knows no file, no socket and no fleet.

``evolution`` is the strategy of one function, ``learning_rates`` its brakes under noise, ``sites`` how many sites a
generation is asked of, ``tables`` what is done about lost answers.
"""
