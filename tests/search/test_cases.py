"""The searches that broke other products (shared/cases, section E), and every row of its two files."""

import json

import pytest

from search.query import Filters
from tests.search.archive import Archive, partitions, said
from tests.support.shared import shared_path

MODES = ("lexical", "hybrid")


def case_archive() -> Archive:
    changes = []
    for line in shared_path("cases/search_docs.jsonl").read_text().splitlines():
        row = json.loads(line)
        text = row["text"] if "text" in row else row["text_repeat"][0] * row["text_repeat"][1]
        changes.append(said(f"conv-{row['id']}", text))
    return Archive().tick(*changes[:12]).tick(*changes[12:30]).tick(*changes[30:])


def test_every_wanted_document_is_found_and_no_query_is_an_error():
    archive = case_archive()
    engine_answers = 0
    for line in shared_path("cases/search_queries.jsonl").read_text().splitlines():
        row = json.loads(line)
        for mode in MODES:
            for events in (False, True):
                found = partitions(archive.search(row["q"], mode=mode, events=events))
                missing = {f"conv-{name}" for name in row["want"] or []} - set(found)
                assert not missing, row["q"][:60]
                engine_answers += 1
    assert engine_answers > 200


@pytest.mark.parametrize(
    "text", ["", "   ", "\x00", "*", "(", '"', ":", "\x1f", "\ud800", "''", "--", "\u202e", "\u200d", "~", "\\"]
)
@pytest.mark.parametrize("mode", MODES)
def test_what_holds_no_word_finds_nothing_and_says_so(text, mode):
    """E02: an empty answer, the same in every mode."""
    answer = Archive().tick(said("conv-a", "points")).search(text, mode=mode)
    assert answer.results == ()
    assert answer.fallback in {"empty_query", "no_searchable_words"}


@pytest.mark.parametrize(
    "query",
    [
        "multi-agent",
        'say "unbalanced',
        "a AND",
        "NEAR(points",
        "rowid:1 points",
        "points*",
        "-points",
        "+points ~3",
        "points^2",
    ],
)
def test_no_character_is_an_operator(query):
    """E01: text is text."""
    archive = Archive().tick(said("conv-a", "multi-agent points say unbalanced a and near rowid 1"))
    assert partitions(archive.search(query)) == ["conv-a"]


@pytest.mark.parametrize(
    ("document", "queries"),
    [
        pytest.param(
            "łatwo zrobiłem żółć w Łodzi",
            ["latwo", "zrobilem", "ZOLC", "łódźi", "lodzi", "łatwo"],
            id="E04 no decomposition",
        ),
        pytest.param("đurđevac and smørrebrød", ["durdevac", "smorrebrod", "Đurđevac"], id="E04 stroke and slash"),
        pytest.param("café nai\u0308ve", ["cafe", "cafe\u0301", "CAFÉ", "naive", "naïve"], id="E05 NFC and NFD"),
        pytest.param(
            "straße ﬁsh İstanbul ＡＢＣ１２３ zero\u200bwidth",
            ["strasse", "fish", "istanbul", "ABC123", "zerowidth"],
            id="E06 length changes",
        ),
        pytest.param(
            "重跑gen-itgc后修复已验证 数据库 東京タワー 안녕하세요",
            ["修复", "数据", "库", "東京", "안녕", "gen-itgc"],
            id="E03 CJK",
        ),
        pytest.param(
            "getUserById x86_64 parseJSON",
            ["user by id", "getuserbyid", "x86_64", "parse json", "GetUserByID"],
            id="E07 camel and snake",
        ),
        pytest.param(
            "src/depot/main.py v1.2.3 user@example.com 9f86d081884c7d65",
            ["main.py", "depot/main.py", "1.2.3", "v1.2", "user@example.com", "9f86d08", "9f86d081884c", "example.com"],
            id="E08 paths, versions, hashes",
        ),
        pytest.param("שָׁלוֹם עֲלֵיכֶם", ["שלום", "עליכם", "שָׁלוֹם", "שלום עליכם"], id="E05 points of Hebrew"),
        pytest.param(
            "مَرْحَبًا بالعربيّة الكتــاب آب",
            ["مرحبا", "مَرْحَبًا", "بالعربية", "الكتاب", "اب", "أب"],
            id="E05 vowel signs of Arabic",
        ),
        pytest.param("שלום مرحبا", ["שָׁלוֹם", "مَرْحَبًا"], id="E05 points in the query alone"),
        pytest.param("👍 works 👨\u200d👩\u200d👧", ["👍", "👨\u200d👩\u200d👧", "👍🏽"], id="E09 emoji"),
    ],
)
def test_spellings_parts_and_wholes_are_found_both_ways(document, queries):
    """E03 to E09, as the rows' names say."""
    archive = Archive().tick(said("conv-a", document), said("conv-b", "something else"))
    for query in queries:
        assert partitions(archive.search(query))[:1] == ["conv-a"], query


def test_a_sign_is_part_of_the_language_it_names():
    """E08: C++ is not just the letter c."""
    archive = Archive().tick(said("conv-c", "the c compiler"), said("conv-cpp", "the C++ compiler"))
    assert partitions(archive.search("C++")) == ["conv-cpp"]
    assert set(partitions(archive.search("c"))) == {"conv-c", "conv-cpp"}


@pytest.mark.parametrize(
    ("query", "found"),
    [("C++", "conv-17"), ("c++17", "conv-17"), ("C#", "conv-sharp"), ("C#12", "conv-sharp"), ("F#", "conv-f")],
)
def test_a_languages_version_is_of_that_language(query, found):
    archive = Archive().tick(
        said("conv-17", "built as C++17"), said("conv-sharp", "C#12 records"), said("conv-f", "F# and f#x"),
        said("conv-c", "c17 and c 12, i + +1"),
    )  # fmt: skip
    assert partitions(archive.search(query))[:1] == [found]
    assert "conv-c" not in partitions(archive.search("C++"))


def test_a_hash_is_not_found_by_another_one():
    archive = Archive().tick(said("conv-a", "commit 9f86d081884c7d65"), said("conv-b", "commit 9f86e081884c7d65"))
    assert partitions(archive.search("9f86d08")) == ["conv-a"]


def test_monsters_are_bounded_and_no_error():
    """E14: a word of 5 000 characters, 2 000 words, a document of one 70 000 character token."""
    archive = Archive().tick(said("conv-a", "x" * 70_000, "points"))
    assert archive.search("y" * 5000).results == ()
    many = archive.search(" ".join(f"word{number}" for number in range(2000)) + " points")
    assert many.query_truncated
    assert archive.search("the " * 2000 + "points").results[0].partition == "conv-a"
    assert len(archive.search("x" * 5000).results) == 1


@pytest.mark.parametrize(
    "word", ["/" * 100_000, "a:1" * 30_000, "\\" * 100_000, "/home/" * 16_000, "." * 100_000 + "a:1"]
)
def test_a_monstrous_path_takes_no_time_to_spell(word):
    assert Archive().tick(said("conv-a", "points")).search(word).results == ()


def test_alternatives_are_or_and_echoed_as_such():
    archive = Archive().tick(said("conv-a", "checksum"), said("conv-b", "release"), said("conv-c", "else"))
    answer = archive.search(" signed metadata ", terms=("checksum", " ", "release"))
    assert answer.query == "signed metadata OR checksum OR release"
    assert set(partitions(answer)) == {"conv-a", "conv-b"}


def test_words_of_unfinished_turns_are_not_there_because_they_have_no_rows():
    """The projector hands over rows of committed turns only; a change without rows is nothing to find."""
    archive = Archive().tick(said("conv-a"))
    assert archive.search("zanzibar").results == ()
    assert archive.search("", filters=Filters(files=("a.py",))).results == ()


@pytest.mark.parametrize(
    ("document", "query"),
    [
        pytest.param(
            "SELECT name FROM users WHERE id = 7 -- note", "SELECT name FROM users WHERE id = 7; --", id="SQL"
        ),
        pytest.param("matched ^foo[a-z]+bar$ twice", "^foo[a-z]+bar$", id="a regular expression"),
        pytest.param("level:error in the log", "level:error -debug +trace", id="fields, minus, plus"),
        pytest.param("first line\nsecond line", "first line\nsecond line", id="line breaks"),
        pytest.param("nothing odd", "nothing\x00odd", id="NUL"),
        pytest.param("12,345.67 paid on 2026-03-01", "12,345.67", id="a number with separators"),
        pytest.param("12,345.67 paid on 2026-03-01", "2026-03-01", id="a date"),
        pytest.param("id 9f1c2a7e-4b3d-4c1a-8e2f-0123456789ab", "9f1c2a7e", id="the beginning of a UUID"),
        pytest.param("id 9f1c2a7e-4b3d-4c1a-8e2f-0123456789ab", "9f1c2a7e-4b3d-4c1a-8e2f-0123456789ab", id="a UUID"),
        pytest.param("the and of it", "the of", id="nothing but common words"),
        pytest.param("kebab-case-name", "kebabCaseName kebab-case-name", id="kebab"),
        pytest.param("שלום חשמלית", "שלום", id="right to left"),
        pytest.param("مَرْحَبًا بالعالم", "مَرْحَبًا", id="Arabic with vowel signs"),
        pytest.param("e\u0301\u0323te\u0301", "\u00e9\u0323t\u00e9", id="marks in another order"),
        pytest.param("DIYARBAKIR İzmir", "diyarbakir izmir", id="dotted and dotless i"),
        pytest.param("GROSSE STRASSE", "große straße", id="sharp s"),
        pytest.param("🏳️\u200d🌈 flag", "🏳\u200d🌈", id="an emoji with its variation selector"),
        pytest.param("needle " + "hay " * 200, ("hay " * 2500) + " needle", id="10 kB"),
        pytest.param('he said "half a quote', '"half a quote', id="unbalanced quotes"),
        pytest.param("look in C:\\depot\\main.py", "C:\\depot\\main.py", id="a path with backslashes"),
        pytest.param("fails in src/depot/main.py now", "src/depot/main.py:123", id="a place in a file"),
        pytest.param("fails in src/depot/main.py now", "src/depot/main.py:123:4:", id="a place as compilers write it"),
        pytest.param("fails in src/depot/main.py now", "depot/main.py#L12-L20", id="a place as links write it"),
        pytest.param("fails in ~/src/main.py now", "/home/maren/src/main.py", id="a path in a home folder"),
        pytest.param("fails in ~/src/main.py now", "/Users/maren/src/main.py:7", id="a place in a home folder"),
        pytest.param("saved ~/My Documents/tax form.pdf", "~/My Documents/tax form.pdf", id="a path with blanks"),
        pytest.param("call ptr->field or foo()", "ptr->field foo()", id="arrows and calls"),
        pytest.param("run it with --no-verify -x", "--no-verify", id="an option"),
        pytest.param("a key 550e8400-e29b-41d4-a716-446655440000", "550E8400-E29B", id="a UUID in capitals"),
        pytest.param("नमस्ते दुनिया தமிழ் မြန်မာ", "दुनिया தமிழ் မြန်မာ", id="marks that belong to letters"),
        pytest.param("混合text和数字123与café", "数字123", id="Han beside Latin"),
        pytest.param("𝒽𝑒𝓁𝓁𝑜 𝔴𝔬𝔯𝔩𝔡", "hello world", id="letters of mathematics"),
        pytest.param("flag 🇩🇪 and 👩\u200d❤️\u200d💋\u200d👨", "👩\u200d❤️\u200d💋\u200d👨 🇩🇪", id="flags and families"),
        pytest.param("see https://example.org/a/b?c=d#frag", "https://example.org/a/b?c=d#frag", id="a URL"),
    ],
)
def test_more_of_the_kinds_is_found_without_an_error(document, query):
    archive = Archive().tick(said("conv-a", document), said("conv-b", "unrelated filler"))
    for mode in MODES:
        for events in (False, True):
            assert partitions(archive.search(query, mode=mode, events=events))[:1] == ["conv-a"]


def test_what_was_said_exactly_stands_before_its_other_spellings():
    archive = Archive().tick(said("conv-other", "all of main.py in it"), said("conv-exact", "see main.py:12 in it"))
    assert partitions(archive.search("main.py:12")) == ["conv-exact", "conv-other"]
    assert partitions(archive.search("rowid:12 localhost:80")) == []


def test_a_common_word_in_one_huge_conversation_leaves_room_for_the_others():
    """The best event of each conversation, though one of them has every one of the best chunks."""
    huge = said("conv-huge", *[f"depot depot depot {number}" for number in range(300)])
    others = [said(f"conv-{number}", f"the depot and much else {number} " * 12) for number in range(5)]
    answer = Archive().tick(huge, *others).search("depot", limit=6)
    assert partitions(answer)[0] == "conv-huge"
    assert len(set(partitions(answer))) == 6
    assert answer.results[0].further_matches == 299
