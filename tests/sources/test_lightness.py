"""A look that finds nothing new loads no parser, no engine and no cryptography."""

import subprocess
import sys

HEAVY = (
    "facts",
    "re2",
    "cryptography",
    "pyarrow",
    "duckdb",
    "sources.teller",
    "sources.providers",
    "sources.redaction",
)

LOOK = """
import sys
from pathlib import Path
from sources import Cursors, Importer, default_paths
cursors = Cursors.open(Path(sys.argv[1]))
found = Importer(cursors).survey([Path(sys.argv[2])], now_us=0)
default_paths(Path(sys.argv[2]), {})
print(found.files, len(found.changed), *sorted(set(sys.argv[3].split(",")) & set(sys.modules)))
"""


def look(cursors, folder) -> list[str]:
    arguments = [sys.executable, "-c", LOOK, str(cursors), str(folder), ",".join(HEAVY)]
    return subprocess.run(arguments, check=True, capture_output=True, text=True).stdout.split()


def test_a_look_without_news_is_light_and_one_with_news_is_not(tmp_path):
    from sources import Cursors
    from tests.sources.histories import ClaudeFile
    from tests.sources.loop import Loop

    f = ClaudeFile("s")
    f.say("Go.")
    f.answer("m", "Done.")
    folder = tmp_path / "files"
    f.write(folder)
    loop = Loop(Cursors.open(tmp_path / "cursors.sqlite"))
    loop.run(folder)
    loop.cursors.close()
    assert look(tmp_path / "cursors.sqlite", folder) == ["1", "0"]
    f.say("More.")
    f.write(folder)
    assert {"facts", "sources.providers"} <= set(look(tmp_path / "cursors.sqlite", folder))
