"""Every name that others script against is there, with help and an example; secrets never stand in arguments."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main

from core import log
from listings.main import main
from listings.program import command_line

NAMED = [
    *["serve", "grpc", "gateway", "worker", "sandbox", "migrate"],
    *["seller add", "seller list", "seller show", "seller update"],
    *["key create", "key list", "key revoke", "credits grant", "credits show"],
    *[
        "account connect",
        "account disconnect",
        "account reencrypt",
        "account show",
        "tax-category set",
        "tax-category list",
    ],
    *["catalog import", "backup", "restore", "publish", "promote", "test-products", "ping"],
    *["job list", "job show", "job watch", "job retry", "job cancel", "job failures"],
]
LIVING = {"serve", "grpc", "gateway", "worker", "sandbox"}


@pytest.fixture(autouse=True)
def _beside_a_running_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody may have `make run` open: the usual addresses are taken then."""
    for name in ("HTTP", "GRPC", "SANDBOX"):
        monkeypatch.setenv(f"LISTINGS_{name}_ADDR", "127.0.0.1:0")


def commands() -> dict[str, Any]:
    """Every command that does something, by its words. They are click's, whichever way typer brings it."""
    found: dict[str, Any] = {}

    def collect(command: Any, name: str) -> None:
        children = getattr(command, "commands", {})
        if not children:
            found[name] = command
        for word, child in children.items():
            collect(child, f"{name} {word}".strip())

    collect(typer.main.get_command(command_line()), "")
    return found


@pytest.fixture(autouse=True)
def _apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(log, "configure", lambda **_: None)  # logs of other tests go where they went
    for name in [name for name in os.environ if name.startswith("LISTINGS_")]:
        monkeypatch.delenv(name)


def test_the_names_are_those_of_the_contract_with_scripts() -> None:
    assert sorted(commands()) == sorted(NAMED)


@pytest.mark.parametrize("name", NAMED)
def test_each_command_explains_itself_with_an_example(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main([*name.split(), "--help"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"Examples?:", shown)
    assert "--supervised" not in shown
    assert ("--json" in shown) is (name not in LIVING or name == "serve")


def test_every_option_has_help() -> None:
    options = [
        (name, parameter)
        for name, command in commands().items()
        for parameter in command.params
        if parameter.param_type_name == "option" and not parameter.hidden
    ]
    assert len(options) > 50
    assert [(name, option.name) for name, option in options if not option.help] == []


def test_no_option_takes_a_key() -> None:
    options = {option for command in commands().values() for each in command.params for option in each.opts}
    assert not options & {"--key", "--api-key", "--operator-token", "--secret-key"}


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"listings {importlib.metadata.version('listing-publication')}\n"


@pytest.mark.parametrize(
    "arguments",
    [["nonsense"], ["seller", "nonsense"], ["seller", "show", "one"], ["serve", "--workers", "0"], ["ping", "--x"]],
)
def test_usage_errors_end_with_2(arguments: list[str]) -> None:
    assert main(arguments) == 2


def test_every_number_has_a_bound() -> None:
    numbers = [
        (name, parameter.name, parameter.max)
        for name, command in commands().items()
        for parameter in command.params
        if parameter.type_descriptor.annotation is int
    ]
    assert len(numbers) > 20
    assert [each for each in numbers if each[2] is None or each[2] >= 2**63] == []


HUGE = "99999999999999999999"


@pytest.mark.parametrize(
    "command",
    [
        f"seller show {HUGE}",
        f"seller add --name N --credits {HUGE}",
        f"seller update 1 --trm {HUGE}",
        f"credits grant --seller 1 {HUGE}",
        f"key list --seller {HUGE}",
        f"tax-category list --seller {HUGE}",
        f"account disconnect --seller {HUGE} --environment test",
        f"publish - --tax-category {HUGE}",
        f"job cancel --seller {HUGE}",
        "seller show one",
        "job list --nonsense",
        "nonsense",
        "seller show",
    ],
)
def test_usage_errors_are_one_document_for_programs(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command.split()) == 2
    assert capsys.readouterr().out == ""
    assert main([*command.split(), "--json"]) == 2
    ended = capsys.readouterr()
    error = json.loads(ended.out)["error"]
    assert (error["code"], ended.err) == ("E_USAGE", "")
    assert error["detail"]


@pytest.mark.parametrize("command", ["serve", "job watch"])
@pytest.mark.parametrize("module", ["typer", "core.settings"])
def test_an_interruption_while_everything_loads_ends_quietly(command: str, module: str) -> None:
    program = f"""
import sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
from listings.main import main
sys.exit(main({command.split()!r}))
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


@pytest.mark.parametrize(
    "arguments", [["seller", "list"], ["migrate"], ["grpc"], ["worker"], ["credits", "show", "--seller", "1"]]
)
def test_without_a_database_there_is_one_line_and_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    ended = capsys.readouterr()
    assert ended.out == ""
    assert ended.err.startswith("listings: no database: LISTINGS_DATABASE_URL is not set")
    assert ended.err.count("\n") == 1


def test_a_database_that_is_away_is_one_line_and_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LISTINGS_DATABASE_URL", "postgresql://someone:a-secret@127.0.0.1:1/none")
    assert main(["seller", "list"]) == 2
    ended = capsys.readouterr()
    assert ended.err == "listings: LISTINGS_DATABASE_URL: the database cannot be reached\n"


@pytest.mark.parametrize("command", ["migrate", "grpc", "worker", "serve", "backup x.dump", "seller list"])
def test_an_address_that_is_none_of_postgresql_is_one_line_and_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    for address in ("mysql://a-secret@localhost/x", "postgresql://localhost/x?nonsense=a-secret"):
        monkeypatch.setenv("LISTINGS_DATABASE_URL", address)
        assert main(command.split()) == 2
        ended = capsys.readouterr()
        assert ended.err.startswith("listings: LISTINGS_DATABASE_URL: must be a ")
        assert ended.err.count("\n") == 1
        assert "a-secret" not in ended.err


def test_a_backup_replaces_nothing_unasked(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "there.dump").write_text("kept")
    assert main(["backup", "there.dump"]) == 2
    assert capsys.readouterr().err == "listings: there.dump exists: say --force to replace it\n"
    assert main(["backup", "there.dump", "--force"]) == 2
    assert "no database" in capsys.readouterr().err
    assert (tmp_path / "there.dump").read_text() == "kept"


def test_python_m_listings() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "listings", "--version"], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0
    assert done.stdout.startswith("listings ")


def test_a_reader_that_leaves_is_no_error() -> None:
    command = [sys.executable, "-m", "listings", "--help"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        _, said = process.communicate(timeout=60)
    assert "Traceback" not in said
    assert "BrokenPipe" not in said


def test_shell_completion_is_there(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("_LISTINGS_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "listings job ")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert main([]) == 0
    assert {"watch", "retry", "failures"} <= set(capsys.readouterr().out.split())
