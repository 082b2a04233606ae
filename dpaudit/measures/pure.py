"""Pure differential privacy: value = epsilon, the largest absolute privacy loss."""

from dpaudit.measures.calculus import Calculus, Laws, Source, register

MCSHERRY = Source("McSherry", 2009, "Theorem 4 (parallel composition)")
BASIC = Source("Dwork, Rothblum, Vadhan", 2010, "Section III.A (adaptive k-fold composition)")

PURE = register(Calculus("pure", "epsilon of pure differential privacy", Laws(BASIC, MCSHERRY)))
