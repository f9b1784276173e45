"""What a run will take, measured before its first evaluation: ``zofedht-server plan``.

Others use ``planning`` (plan_here, plan_over: a report to print). ``measure`` looks at one site, ``estimate`` makes
time and bytes of it, and ``advice`` says which K, M and b to take.
"""
