"""Splitting and adding amounts of money."""


def split_fee(amount, people):
    """Split an amount into `people` shares that together are the amount again."""
    share = round(amount / people, 2)
    return [share] * people


def total(amounts):
    """Add amounts, exact to the cent."""
    return sum(amounts)
