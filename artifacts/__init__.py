"""Generations of immutable, signed artifacts: written by the projector, read by the query plane (artifacts.md).

A *pack* holds rows of many partitions, one Parquet file a table and an index; a *generation* is a signed manifest
that names packs and the journal's frontier they were built through. Nothing here knows what a row means.
"""
