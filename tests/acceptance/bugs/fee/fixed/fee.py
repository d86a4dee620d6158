"""Splitting and adding amounts of money."""

from decimal import ROUND_DOWN, Decimal

CENT = Decimal("0.01")


def split_fee(amount, people):
    """Split an amount into `people` shares that together are the amount again."""
    whole = Decimal(str(amount)).quantize(CENT)
    share = (whole / people).quantize(CENT, rounding=ROUND_DOWN)
    extra_cents = int((whole - share * people) / CENT)
    return [share + CENT if i < extra_cents else share for i in range(people)]


def total(amounts):
    """Add amounts, exact to the cent."""
    return sum(Decimal(str(a)) for a in amounts).quantize(CENT)
