"""A release of Gaussian noise, charged to an account that adds epsilon and delta, with no delta"""


def probe() -> str:
    import dpaudit as dp
    from dpaudit.ledger import terms_of
    from dpaudit.scope import Scope

    scope = Scope("add_remove", "user", "central", "transcript")
    terms = terms_of("person", scope, dp.ApproxDP(3, "1e-5"))
    try:
        return f"charged {terms.cost(dp.Gaussian('noise', 3))}"
    except dp.DpauditError as error:
        return "refused" + (", with what to do" if "--delta" in str(error) else ", without a way")
