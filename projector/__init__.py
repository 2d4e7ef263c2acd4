"""Replays journal partitions through the shared folds and publishes what comes out as signed generations.

The projector gives nothing meaning: folds do (`facts`). It decides what to replay, what to write and when, and a
rebuild from nothing gives the same content digests, and after compaction the same bytes.
"""
