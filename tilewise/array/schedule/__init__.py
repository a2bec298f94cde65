"""When does work run? One policy: at once, recorded, flushed, promoted or deferred (docs/scheduling.md).

policy.py answers; the other files each hold one part of the answer: sites.py and loop_flush.py loops, promote.py and
exact.py loops over arrays of middling size, deferred.py and co_results.py calls of traced functions, repeat.py plans of
steps that workers ran before.
"""
