from playlist import Playlist


def test_two_playlists_do_not_share_songs():
    Playlist("a").add("one")
    assert Playlist("b").songs == []


def test_it_has_its_name():
    assert Playlist("road").name == "road"


def test_it_starts_with_the_songs_given():
    assert Playlist("x", ["one", "two"]).songs == ["one", "two"]


def test_songs_keep_their_order():
    assert Playlist("x", ["one"]).add("two").songs == ["one", "two"]


def test_length_is_the_number_of_songs():
    assert len(Playlist("x", ["one", "two", "three"])) == 3
