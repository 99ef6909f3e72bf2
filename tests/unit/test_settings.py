"""Settings that nothing can work with are refused at the start, in one line that names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.settings import Settings, SettingsError


@pytest.fixture(autouse=True)
def _own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MAX_MESSAGE_BYTES", "99999999999"),
        ("MAX_CONCURRENT_CALLS", "99999999999"),
        ("LEASE_SECONDS", "1e300"),
        ("MARKETPLACE_SETTLE_SECONDS", "inf"),
        ("DRAIN_SECONDS", "inf"),
        ("POLL_SECONDS", "nan"),
        ("STATEMENT_TIMEOUT_SECONDS", "0.0001"),
    ],
)
def test_a_number_beyond_what_the_program_can_work_with_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(f"LISTINGS_{name}", value)
    with pytest.raises(SettingsError, match=f"LISTINGS_{name}: "):
        Settings.load()


def test_a_file_of_settings_in_another_encoding_is_told_without_its_contents() -> None:
    Path(".env").write_bytes(b"# contrase\xf1a\nLISTINGS_LOG_LEVEL=INFO\n")
    with pytest.raises(SettingsError, match=r"^\.env: must be text in UTF-8$"):
        Settings.load()


def test_a_file_of_settings_that_cannot_be_read_is_told() -> None:
    Path(".env").symlink_to("/proc/self/mem")
    with pytest.raises(SettingsError, match=r"^\.env: cannot be read"):
        Settings.load()
