"""The lexical index's shape, for those who write it and those who read it; the only module that names its fields.

    body       `agent-text/2` tokens with positions
    stem       the parts again, each reduced by Porter2 (English), without positions; of what was said or asked for
               only: what tools print is mostly names and numbers, and half of all text
    partition, kind, role, tool, path    ordinals of the pack; filters
    time       occurred_at in microseconds, absent when unknown
    position   of the event; never asked for, read with the time
    ident      first 8 bytes of the chunk id; digest: of the text, so that equal texts are scored once
    body_count, stem_count   tokens of the two text fields: the engine keeps lengths in 8 bits

Nothing is stored: chunks lie in a file of ours (search.rows).

Ordinals are numbers because text ids measured 6 times slower at 10 000 partitions (search.md).
"""

from pathlib import Path
from typing import Any, Final

import tantivy

ENGINE: Final = "tantivy 0.27"
STEMMED: Final = frozenset({"main"})
SEGMENT: Final = "0" * 32  # segments are named by chance; ours have one name, so that equal input gives equal files
EXTENSIONS: Final = ("term", "idx", "pos", "store", "fast", "fieldnorm")
ROWS: Final = "rows"  # the extension of the file that holds the chunks
_STEM: Final = "porter2-en"


def make_schema() -> Any:
    """The fields of a lexical index."""
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("body", stored=False, tokenizer_name="whitespace", index_option="position")
    builder.add_text_field("stem", stored=False, tokenizer_name=_STEM, index_option="freq")
    for name in ("partition", "kind", "role", "tool"):
        builder.add_unsigned_field(name, indexed=True, fast=True)
    builder.add_unsigned_field("path", indexed=True)
    builder.add_integer_field("time", indexed=True, fast=True)
    for name in ("ident", "digest", "position", "body_count", "stem_count"):
        builder.add_unsigned_field(name, fast=True)
    return builder.build()


def make_stemmer() -> Any:
    """Reduces each word of a text that is separated by blanks."""
    return tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).filter(tantivy.Filter.stemmer("english")).build()


def create_index(folder: Path) -> Any:
    """An empty index in a folder."""
    index = tantivy.Index(make_schema(), path=str(folder), reuse=False)
    index.register_tokenizer(_STEM, make_stemmer())
    return index


def open_index(folder: Path) -> Any:
    """The index in a folder (which the engine must be able to write to: it locks there)."""
    index = tantivy.Index.open(str(folder))
    index.register_tokenizer(_STEM, make_stemmer())
    return index
