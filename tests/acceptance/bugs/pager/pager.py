"""Cutting a list into pages, numbered from 1."""


def page_count(items, per_page):
    """How many pages the items fill."""
    return len(items) // per_page + 1


def page(items, number, per_page):
    """The items of one page; a page past the end is empty."""
    start = (number - 1) * per_page
    end = min(start + per_page, len(items) - 1)
    return items[start:end]
