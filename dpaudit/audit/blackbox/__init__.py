"""Black-box audits: only a function that draws, two data sets (or a domain) and a claim are given.

Modules, from the lowest: draws (typed outputs), bits, features (functions of one output), events,
canonical (events fixed beforehand), sampler (calls and what is wrong with them), claims, cells and
learned (events and scores made on training draws), choice (which events, at what share of the
error), entry (`audit_function`), search (`audit_domain`), reproduce.
"""
