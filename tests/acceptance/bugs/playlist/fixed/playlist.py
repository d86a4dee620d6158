"""A playlist."""


class Playlist:
    """Songs in the order in which they were added."""

    def __init__(self, name, songs=None):
        self.name = name
        self.songs = list(songs) if songs is not None else []

    def add(self, song):
        self.songs.append(song)
        return self

    def __len__(self):
        return len(self.songs)
