"""Bounds of the root of wide networks: by chords, by ranges of slopes, and semidefinite ones."""
