"""Zero-concentrated differential privacy: value = rho, D_order(M(D) || M(D')) <= rho * order."""

from dpaudit.measures.calculus import Calculus, Laws, Source, register
from dpaudit.measures.pure import MCSHERRY

COMPOSITION = Source("Bun, Steinke", 2016, "Lemma 2.3 (adaptive composition)")
FROM_PURE = Source("Bun, Steinke", 2016, "Proposition 1.4")

CONCENTRATED = register(
    Calculus("zcdp", "rho of zero-concentrated differential privacy", Laws(COMPOSITION, MCSHERRY))
)
