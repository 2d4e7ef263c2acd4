"""`agent-text/2`: what is a token, and where it stands in the text."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search.analyzer import GAP, analyze, blobs, without_blobs
from search.stream import stream, unit_tokens, units


def parts(text: str) -> list[str]:
    return [token.text for token in analyze(text).parts]


def wholes(text: str) -> list[str]:
    return [token.text for token in analyze(text).wholes]


@pytest.mark.parametrize(
    ("text", "expected_parts", "expected_wholes"),
    [
        ("getUserById", ["get", "user", "by", "id"], ["getuserbyid"]),
        ("HTTPServer", ["http", "server"], ["httpserver"]),
        ("parseJSON2XML", ["parse", "json", "2", "xml"], ["parsejson2xml"]),
        ("refresh_token", ["refresh", "token"], ["refresh_token"]),
        ("__init__", ["init"], []),
        ("x86_64", ["x", "86", "64"], ["x86", "x86_64"]),
        ("src/depot/main.py", ["src", "depot", "main", "py"], ["main.py"]),
        ("v1.2.3", ["v", "1", "2", "3"], ["v1", "v1.2.3"]),
        ("don't", ["don", "t"], ["dont"]),
        ("C++ C# c", ["c", "c", "c"], ["c++", "c#"]),
        ("9f86d081884c7d65", ["9f86d081884c7d65"], ["9f86d08"]),
        ("0x7fff5fbff8c0", ["0x7fff5fbff8c0"], ["7fff5fbff8c0", "7fff5fb"]),
        ("E0599", ["e0599"], []),
        ("ЁлкаМоя", ["елка", "моя"], ["елкамоя"]),
    ],
)
def test_words_are_split_and_kept_whole(text, expected_parts, expected_wholes):
    assert parts(text) == expected_parts
    assert wholes(text) == expected_wholes


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("łódź", "lodz"),
        ("café", "cafe\u0301"),
        ("straße", "STRASSE"),
        ("İstanbul", "istanbul"),
        ("ﬁsh", "fish"),
        ("ＡＢＣ１２３", "abc123"),
        ("zero\u200bwidth", "zerowidth"),
        ("soft\u00adhyphen", "softhyphen"),
        ("æon þing œuvre", "aeon thing oeuvre"),
        ("👍🏽", "👍"),
        ("\u1112\u1161\u11ab", "한"),
        ("か\u3099", "が"),
        ("ｶﾞ", "ガ"),
        ("Ёлка", "ЕЛКА"),
        ("well\u2011known", "well-known"),
    ],
)
def test_spellings_of_one_word_are_one(one, other):
    assert parts(one) == parts(other)


def test_scripts_without_blanks_give_a_token_for_each_character():
    assert parts("数据库 東京タワー 안녕 สถานี") == [*"数据库東京タワー안녕", *"สถานี"]


def test_vowel_signs_stay_with_their_letters():
    assert parts("हिन्दी में") == ["हिन्दी", "में"]


def test_a_joined_emoji_is_its_people():
    assert parts("👨\u200d👩\u200d👧") == ["👨", "👩", "👧"]


def test_boxes_arrows_and_spinners_are_nothing():
    assert parts("┌──┐ → ⠋ ░▒▓") == []


def test_offsets_take_in_the_marks_that_belong_to_a_letter():
    text = "x cafe\u0301s 👍🏽!"
    assert [text[token.start : token.end] for token in analyze(text).parts] == ["x", "cafe\u0301s", "👍🏽"]


def test_a_long_word_is_cut_alike_everywhere():
    assert parts("x" * 5000) == parts("x" * 70_000) == ["x" * 128]


@pytest.mark.parametrize("text", ["", "   ", "\x00", '"', "(", ":", "*", "\ud800", "\x1f", "''..__--"])
def test_what_has_no_word_has_no_token(text):
    assert analyze(text).parts == []
    assert stream(text).body == ""


# Letters of every kind that the pattern of words treats differently, so that chance makes words of them.
mixed = st.text(
    alphabet="aAbBfFxXzZ0129_-.'\u2019+#/ \n\x1c\x1d\x1féßİłŁ中あ안👍🏽\u0301\u200d\u200bहि\ufb01", max_size=60
)


@settings(deadline=None)
@given(st.one_of(st.text(max_size=200), mixed, st.text(alphabet="aAfFxX09_-.'+# ", max_size=40)))
def test_stream_and_analysis_are_the_same_tokens(text):
    analysis = analyze(text)
    tokens = [token.text for token in analysis.parts]
    if analysis.wholes:
        tokens += [GAP, *(token.text for token in analysis.wholes)]
    told = stream(text)
    assert told.body.split(" ") == (tokens or [""])
    assert told.parts.split(" ") == ([token.text for token in analysis.parts] or [""])
    assert (told.parts_count, told.body_count) == (len(analysis.parts), len(tokens))


@settings(deadline=None)
@given(st.text(max_size=200))
def test_offsets_slice_the_original_text(text):
    analysis = analyze(text)
    for token in [*analysis.parts, *analysis.wholes]:
        assert 0 <= token.start < token.end <= len(text)
    starts = [token.start for token in analysis.parts]
    assert starts == sorted(starts)


@settings(deadline=None)
@given(st.text(max_size=80))
def test_no_token_holds_a_blank_or_the_gap(text):
    tokens = [token.text for token in (*analyze(text).parts, *analyze(text).wholes)]
    assert all(token and " " not in token and GAP not in token for token in tokens)
    assert all(token == "".join(token.split()) for token in tokens)


def test_the_sampled_law_can_fail():
    assert stream("a-b").body.split(" ") != [token.text for token in analyze("a b").parts]


@settings(deadline=None)
@given(mixed)
def test_a_text_is_its_units_one_after_another(text):
    parts, wholes = [], []
    for unit in units(without_blobs(text)):
        more = unit_tokens(unit)
        parts += more[0]
        wholes += more[1]
    analysis = analyze(text)
    assert (parts, wholes) == ([t.text for t in analysis.parts], [t.text for t in analysis.wholes])


@pytest.mark.parametrize("lead", ["", "see ", "x" * 31 + " ", "a line\n" * 40])
def test_encoded_data_is_no_words_wherever_it_stands(lead):
    blob = "Q3Vy" + "ZW50b" * 70
    text = f"{lead}{blob}== end"
    ((start, end),) = blobs(text)
    assert text[start:end].rstrip("=") == blob
    assert parts(text)[-1] == "end"
    assert blobs(lead + "word " * 300 + "a" * 400) == []  # letters alone are no base64


def test_a_table_of_units_that_is_full_gives_way_to_a_new_one(monkeypatch):
    monkeypatch.setattr("search.stream.SEARCH_WORD_MEMO_MAX", 8)
    texts = [f"getUser{number}By_id refresh_token{number}" for number in range(40)]
    assert [stream(text).body for text in texts] == [
        " ".join([*(t.text for t in analyze(text).parts), GAP, *(t.text for t in analyze(text).wholes)])
        for text in texts
    ]
