"""Makes the recordings of this folder: a real service, real commands in a real terminal (tmux), its screen as text.

    python docs/recordings/record.py PRODUCTS.csv

Needs tmux. What is shown is what the terminal showed; only API keys are cut out.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WIDTH, HEIGHT = 110, 34
HERE = Path(__file__).parent
BIN = Path(sys.executable).parent


class Terminal:
    """One tmux session of its own server."""

    def __init__(self, folder: Path) -> None:
        self._tmux = ["tmux", "-L", f"recording-{os.getpid()}"]
        environment = {
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "PS1": "$ ",
            "HOME": str(folder),
            "TERM": "screen-256color",
            "LC_ALL": "C.UTF-8",
        }
        shell = shlex.join(["env", "-i", *(f"{name}={value}" for name, value in environment.items()), "sh"])
        size = ("-x", str(WIDTH), "-y", str(HEIGHT))
        self._run("-f", "/dev/null", "new-session", "-d", *size, "-c", str(folder), shell)

    def _run(self, *arguments: str) -> str:
        return subprocess.run([*self._tmux, *arguments], check=True, capture_output=True, text=True).stdout

    def screen(self) -> str:
        """What it shows now."""
        text = self._run("capture-pane", "-p").rstrip()
        return re.sub(r"svc_(live|test)_\w+", r"svc_\1_[cut out]", text)

    def type(self, text: str) -> None:
        """Type a line on a cleared screen."""
        self._run("send-keys", "clear", "Enter")
        self.wait(lambda screen: screen.strip() == "$")
        self._run("send-keys", "-l", text)
        typed = self.wait(lambda screen: text in screen.replace("\n", ""))
        self._run("send-keys", "Enter")
        self.wait(lambda screen: screen != typed)

    def wait(self, fits: object, seconds: float = 600.0) -> str:
        """The screen once it fits."""
        assert callable(fits)
        until = time.monotonic() + seconds
        while not fits(self.screen()):
            assert time.monotonic() < until, self.screen()
            time.sleep(0.05)
        return self.screen()

    def done(self) -> str:
        """The screen once the prompt is back."""
        return self.wait(lambda screen: screen.endswith("\n$"))

    def close(self) -> None:
        """End it."""
        self._run("kill-server")


def main() -> None:
    """Record publish and watch."""
    products = Path(sys.argv[1]).read_bytes()
    frames: list[tuple[str, str]] = []
    with tempfile.TemporaryDirectory(prefix="listings-") as name:
        folder = Path(name)
        (folder / "products.csv").write_bytes(products)
        environment = {**os.environ, "LISTINGS_HTTP_ADDR": "127.0.0.1:0", "LISTINGS_SANDBOX_ADDR": "127.0.0.1:0"}
        environment |= {"LISTINGS_GRPC_ADDR": "127.0.0.1:0", "LISTINGS_LOG_LEVEL": "WARNING"}
        # Slow enough to be looked at: the sandbox takes everything at once.
        environment |= {"LISTINGS_MARKETPLACE_RATE": "80/second"}
        service = subprocess.Popen(
            [str(BIN / "listings"), "serve"], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
        )
        terminal = Terminal(folder)
        try:
            assert service.stdout is not None
            assert any("ready on" in line for line in service.stdout)
            terminal.type("listings catalog import products.csv")
            frames.append(("the catalogue", terminal.done()))
            terminal.type("listings publish products.csv --demo live --dry-run")
            frames.append(("what it would cost on the real account", terminal.done()))
            terminal.type("listings publish products.csv --demo test")
            accepted = terminal.done()
            frames.append(("a job on the test account", accepted))
            job_id = re.findall(r"[0-9a-f]{8}-[0-9a-f-]{27}", accepted)[0]
            terminal.type(f"listings job watch {job_id} --demo test")
            for part in (10, 40, 70):
                shown = terminal.wait(lambda screen, part=part: percent(screen) >= part)
                frames.append((f"while it runs, past {part} %", shown))
            frames.append(("at its end", terminal.done()))
            terminal.type(f"listings job failures {job_id} --demo test --csv | head -5")
            frames.append(("the failed rows, ready to be corrected", terminal.done()))
            terminal.type("listings account --demo test")
            frames.append(("the account afterwards", terminal.done()))
        finally:
            terminal.close()
            service.terminate()
            service.wait(20)
    line = "=" * WIDTH
    text = "\n\n".join(f"{line}\n== {title}\n{line}\n{screen}" for title, screen in frames)
    (HERE / "publish-and-watch.txt").write_text(text + "\n", encoding="utf-8")


def percent(screen: str) -> float:
    """How much of the job is done, by the figures on the screen; 0 without any."""
    found = re.search(r"([\d,]+)/([\d,]+)", screen)
    return 100 * int(found[1].replace(",", "")) / int(found[2].replace(",", "")) if found else 0.0


if __name__ == "__main__":
    main()
