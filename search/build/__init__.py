"""Writes search packs: `SearchBuild` is what the projector calls within a tick."""

from search.build.change import PartitionChange
from search.build.kept import kept
from search.build.packs import SearchBuild

__all__ = ["PartitionChange", "SearchBuild", "kept"]
