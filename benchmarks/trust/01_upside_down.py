"""An interval whose lower end is above its upper end"""

from fractions import Fraction


def probe() -> str:
    from dpaudit.accountant.account import Bound

    try:
        return repr(Bound(Fraction(3), Fraction(2), "one", "another"))
    except Exception as error:
        return f"refused: {str(error)[:70]}"
