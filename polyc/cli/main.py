"""`polyc`: parse, run one command, turn its error into an exit code.

Exit codes: 0 ok, 1 refused or failed, 2 usage, 3 evidence corrupt. Data goes to stdout, everything else to stderr.
"""

import io
import os
import signal
import sys
from collections.abc import Sequence
from typing import Final

from polyc.cli.console import note, tell_bug, tell_error
from polyc.cli.parser import build_parser
from polyc.errors import CorruptError, PolycError

DEBUG_VARIABLE: Final = "POLYC_DEBUG"
EXIT_OK: Final = 0
EXIT_REFUSED: Final = 1
EXIT_USAGE: Final = 2
EXIT_CORRUPT: Final = 3
EXIT_INTERRUPTED: Final = 128 + signal.SIGINT


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command of these arguments and give back its exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # data is UTF-8, whatever the locale says
    arguments = build_parser().parse_args(argv)
    try:
        code: int | None = arguments.run(arguments)
        sys.stdout.flush()
    except CorruptError as error:
        tell_error(error)
        return EXIT_CORRUPT
    except PolycError as error:
        tell_error(error)
        return EXIT_REFUSED
    except BrokenPipeError:  # the reader has enough (`polyc query … | head`): nothing to say, and nothing left to flush
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK
    except Exception as error:
        if os.environ.get(DEBUG_VARIABLE):
            raise
        tell_bug(error)
        return EXIT_REFUSED
    except KeyboardInterrupt:
        note("polyc: interrupted")
        return EXIT_INTERRUPTED
    return code or EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
