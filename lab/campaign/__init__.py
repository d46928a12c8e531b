"""`make campaign`: queries of every kind side by side under faults drawn by a seed, and rules that judge what is left.

Outside the wheel, like `benchmarks`. `checker` is pure: a history in, findings out.
"""
