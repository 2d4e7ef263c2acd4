"""Write `docs/native-events.schema.json` anew from the event structs."""

from pathlib import Path

from sources.native_schema import text

PAGE = Path(__file__).resolve().parents[1] / "docs" / "native-events.schema.json"


def main() -> None:
    PAGE.write_text(text())


if __name__ == "__main__":
    main()
