from slug import slug


def test_full_width_letters_become_plain():
    assert slug("Ｈｅｌｌｏ　Ｗｏｒｌｄ") == "hello-world"


def test_chinese_stays():
    assert slug("你好 世界") == "你好-世界"


def test_mixed_scripts_stay_together():
    assert slug("Python 入门 101") == "python-入门-101"


def test_plain_title():
    assert slug("Hello, World!") == "hello-world"


def test_nothing_but_punctuation_is_empty():
    assert slug("?!") == ""
