"""The step check: whether one optimiser step of private training does what is declared.

No model is trained: a step is run on no record, on one, on several and on records that are far
outside, and its updates are compared with its noise.  The modules, from the bottom up: runs (the
protocol, repeated steps), noise (what noise hides), lines and places (the line behind a fault),
drawn (batches of a loader), adapters (PyTorch, scikit-learn, functions of a state), result, check,
entry (``audit_step``).
"""
