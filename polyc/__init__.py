"""The shared ground: errors, ids, clock, limits, canonical encoding, entries, keys, grants' wire form.

Imports nothing of ours; `polyc.cli` alone is the application layer on top of everything.
"""
