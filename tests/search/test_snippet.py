"""Snippets: byte ranges that slice the redacted text exactly, and nothing that a terminal or page would obey."""

from hypothesis import given, settings
from hypothesis import strategies as st

from search.build.chunker import texts_of
from search.query.clauses import compile_question
from search.query.display import one_line, visible
from search.query.snippet import Marker
from tests.search.archive import Archive, change, message, said

NASTY = st.text(alphabet=st.sampled_from(list("ab é\u0301👍🏽\u200dﬁ 数据\n\t\u202e")), max_size=400)


@settings(deadline=None)
@given(NASTY, NASTY)
def test_ranges_slice_the_utf8_text_exactly(before, after):
    text = f"{before} points {after}"
    marker = Marker(compile_question(["points 数据"]).clauses)
    content = text.encode()
    for chunk, _ in texts_of({"messages": [message("conv-a", 1, text)]}):
        snippet = marker.snippet(chunk)
        assert content[snippet.start_byte : snippet.end_byte].decode() == snippet.text
        last = snippet.start_byte
        for start, end in snippet.highlights:
            assert last <= start < end <= snippet.end_byte
            content[start:end].decode()
            last = end


def test_a_match_after_foreign_letters_is_marked_exactly():
    """E10."""
    text = "👍🏽 e\u0301 ﬁ [REDACTED] ½ the points froze"
    hit = Archive().tick(said("conv-a", text)).search("points fi").results[0]
    marked = [text.encode()[start:end].decode() for start, end in hit.snippet.highlights]
    assert marked == ["ﬁ", "points"]
    assert hit.matched == ("ﬁ", "points")


def test_a_match_in_a_later_chunk_counts_from_the_start_of_the_event():
    text = "filler wörds " * 300 + "zanzibar at the end"
    hit = Archive().tick(change("conv-a", messages=[message("conv-a", 1, text)])).search("zanzibar").results[0]
    ((start, end),) = hit.snippet.highlights
    assert text.encode()[start:end] == b"zanzibar"
    assert start > 3000


def test_the_window_is_where_most_words_are():
    text = "points " + "filler " * 60 + "points at the depot froze " + "filler " * 60
    hit = Archive().tick(said("conv-a", text)).search("points depot froze").results[0]
    assert "points at the depot froze" in hit.snippet.text
    assert hit.snippet.cut_before
    assert hit.snippet.cut_after


def test_a_phrase_is_marked_as_one():
    text = "see src/depot/main.py for it"
    hit = Archive().tick(said("conv-a", text)).search("depot/main.py").results[0]
    assert [text.encode()[start:end] for start, end in hit.snippet.highlights] == [b"depot/main.py"]


def test_what_could_hide_or_reverse_is_shown():
    """E19."""
    assert visible("\u202egnp.exe \x1b[2J\u200b\ufeff\x07") == "\\u202egnp.exe \\x1b[2J\\u200b\\ufeff\\x07"
    assert visible("in\u200dvisible \u200cthis") == "in\\u200dvisible \\u200cthis"
    assert visible("👨\u200d👩\u200d👧 می\u200cخواهم") == "👨\u200d👩\u200d👧 می\u200cخواهم"
    assert one_line("a\n\tb  c") == "a b c"
    assert visible("plain ünïcode 数 👍") == "plain ünïcode 数 👍"
