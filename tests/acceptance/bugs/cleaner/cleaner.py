"""Cleaning lines of text that people have pasted."""


def clean(line):
    """Take the blanks off both ends of a line; what is inside stays."""
    return "".join(line.split())
