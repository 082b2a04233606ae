"""A release of Gaussian noise, charged to an account that adds epsilon and delta, with no delta"""

from shared import answer, dp, user_scope


def probe() -> str:
    from dpaudit.ledger import terms_of

    terms = terms_of("person", user_scope(), dp.ApproxDP(3, "1e-5"))
    said = answer(lambda: f"charged {terms.cost(dp.Gaussian('noise', 3))}", most=10_000)
    if not said.startswith("refused"):
        return said
    return "refused" + (
        ", with what to do" if "--delta" in said or "charge_delta=" in said else ", without a way"
    )
