from pager import page, page_count

ITEMS = list(range(10))


def test_first_page():
    assert page(ITEMS, 1, 4) == [0, 1, 2, 3]


def test_last_page_has_the_rest():
    assert page(ITEMS, 3, 4) == [8, 9]


def test_exact_multiple_has_no_page_more():
    assert page_count(ITEMS, 5) == 2


def test_a_page_that_is_not_full_counts():
    assert page_count(ITEMS, 4) == 3


def test_a_page_past_the_end_is_empty():
    assert page(ITEMS, 9, 4) == []
