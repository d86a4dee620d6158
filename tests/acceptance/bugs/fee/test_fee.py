from decimal import Decimal

from fee import split_fee, total


def test_seven_shares_of_a_thousand_are_a_thousand():
    assert sum(Decimal(str(s)) for s in split_fee(1000.00, 7)) == Decimal("1000.00")


def test_three_shares_of_a_hundred_are_a_hundred():
    assert sum(Decimal(str(s)) for s in split_fee(100.00, 3)) == Decimal("100.00")


def test_tenths_add_up():
    assert total([0.1, 0.2, 0.3]) == Decimal("0.60")


def test_an_even_split_is_even():
    assert [float(s) for s in split_fee(90.00, 3)] == [30.0, 30.0, 30.0]


def test_there_are_as_many_shares_as_people():
    assert len(split_fee(10.00, 4)) == 4
