from cleaner import clean


def test_a_blank_between_words_stays():
    assert clean("hello world") == "hello world"


def test_a_full_width_space_inside_stays():
    assert clean("你好\u3000世界") == "你好\u3000世界"


def test_several_blanks_inside_stay():
    assert clean("  a  b \n") == "a  b"


def test_ends_are_cleaned():
    assert clean("  hello\n") == "hello"


def test_a_blank_line_becomes_empty():
    assert clean(" \t\n") == ""
