r"""Names of files and folders in one spelling: what a person types is seldom what was recorded.

home folders    `/home/NAME/x`, `/Users/NAME/x` and `C:\Users\NAME\x` are recorded as `~/x` (sources.redaction), and
a shell writes `~/x` as `/home/NAME/x`
separators      `\` counts as `/`
ends            a leading `./` and a trailing `/` mean nothing
line numbers    `main.py:12:5` and `main.py#L12` are places in `main.py`
"""

import re
from collections.abc import Iterator
from typing import Final

_HOME: Final = re.compile(r"(?:[A-Za-z]:)?/(?:home|Users)/[^/]+(?=/|$)")
_LINE: Final = re.compile(r"(?:(?::[0-9]+){1,2}:?|#L[0-9]+(?:-L?[0-9]+)?)\Z")
_FILE: Final = re.compile(r"/|\\|\.[A-Za-z]")


def spelled(path: str) -> str:
    r"""The path as it is compared.

    >>> spelled("/home/kim/src/"), spelled(r"C:\Users\kim\a.py"), spelled("./a.py")
    ('~/src', '~/a.py', 'a.py')
    """
    if "\\" in path:
        path = path.replace("\\", "/")
    path = path.removeprefix("./")
    if "/home/" in path or "/Users/" in path:
        path = _HOME.sub("~", path, count=1) if _HOME.match(path) else path
    return path.rstrip("/") or path[:1]


def other_spellings(word: str) -> Iterator[str]:
    """What a word of a query may stand for in texts, beside itself: a place in a file, a file in a home folder.

    >>> [list(other_spellings(word)) for word in ("/home/kim/main.py:12", "main.py#L3", "a:1")]
    [['/home/kim/main.py', '~/main.py:12', '~/main.py'], ['main.py'], []]
    """
    line = _LINE.search(word)
    file = "" if line is None else word[: line.start()]
    known = [word, file] if _FILE.search(file) else [word]
    yield from known[1:]
    for said in known:
        if _HOME.match(said.replace("\\", "/")):
            yield spelled(said)
