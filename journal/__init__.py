"""The journal: bytes in order, signed, chained and sealed. It does not know what they mean (docs/journal.md)."""
