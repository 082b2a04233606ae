"""Black-box audits: only a function that draws, two data sets (or a domain) and a claim are given.

Modules, from the lowest: draws (typed outputs), bits, features (functions of one output), events,
canonical (events fixed beforehand), foreign and sql (mechanisms in any language), sampler and
findings (calls, and what is wrong with them), evidence (ranking on training draws), claims
(p-values and bounds), mirror (two events at once), cells and learned (candidate events), choice
(which events, at what share of the error), terms, judge, entry (`audit_function`,
`audit_command`); domains, search (`audit_domain`); result, reproduce;
nights (evidence over a year).
"""
