"""Search over what was said and done: chunks of committed turns, lexical and semantic lanes, evidence for each hit.

`search.build` writes search packs (the projector calls it within a tick); `search.query` reads them from a pinned
generation. They share only what stands here: the analyzer, the values of a chunk, the form of a pack, the spaces of
embeddings. Neither imports the other.
"""
