"""The entry point of the command ``listings``: loads everything else only once an interruption can end it quietly."""

from __future__ import annotations

EXIT_INTERRUPTED = 130


def main(arguments: list[str] | None = None) -> int:
    """Run a command. Returns its exit code: 0 done, 1 refused, 2 usage, 130 interrupted."""
    try:
        from listings.program import run  # noqa: PLC0415 - takes a second, in which Ctrl-C may come

        return run(arguments)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
