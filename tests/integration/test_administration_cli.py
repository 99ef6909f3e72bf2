"""Administration as a script calls it, on a real database."""

from __future__ import annotations

import io
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from core import log
from core.domain.api_key import is_well_formed
from listings.main import main
from tests.support.service import environment_for


@dataclass
class Script:
    """Runs commands with the settings of one test; in this process: starting another one takes most of a second."""

    patch: pytest.MonkeyPatch
    capture: pytest.CaptureFixture[str]
    folder: Path

    def __call__(self, *arguments: str, code: int = 0, given: str = "") -> tuple[str, str]:
        """(standard output, standard error) of a command that must end with this code."""
        self.patch.setattr("sys.stdin", io.StringIO(given))
        ended = main(list(arguments))
        out, err = self.capture.readouterr()
        assert ended == code, err
        return out, err

    def json(self, *arguments: str, code: int = 0, given: str = "") -> Any:
        """One JSON document, and nothing beside it, on standard output."""
        return json.loads(self(*arguments, "--json", code=code, given=given)[0])


@pytest.fixture
def script(
    own_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Script:
    for name in [name for name in os.environ if name.startswith("LISTINGS_")]:
        monkeypatch.delenv(name)
    for name, value in environment_for(own_database_url).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(log, "configure", lambda **_: None)  # logs of other tests go where they went
    return Script(monkeypatch, capsys, tmp_path)


def test_a_seller_from_nothing(script: Script) -> None:
    added = script.json(
        *("seller", "add", "--name", "Tienda Norte", "--credits", "500", "--trm", "4100", "--margin", "12.5"),
        *("--site", "MCO", "--currency", "COP", "--price-step", "50", "--warranty-time", "6 meses"),
        *("--manufacturing-time-days", "3", "--stock-quantity", "9", "--listing-type", "gold_pro"),
    )
    seller = str(added["seller_id"])
    assert (added["trm"], added["margin_percent"], added["price_step"]) == (4100, "12.5", 50)
    assert (added["warranty_time"], added["manufacturing_time_days"]) == ("6 meses", 3)
    assert (added["stock_quantity"], added["listing_type_id"]) == (9, "gold_pro")

    changed = script.json("seller", "update", seller, "--trm", "4200", "--stock-quantity", "2")
    assert (changed["trm"], changed["stock_quantity"], changed["margin_percent"]) == (4200, 2, "12.5")
    assert script.json("seller", "show", seller) == changed
    assert script.json("seller", "list") == {"sellers": [changed]}

    assert script.json("credits", "grant", "--seller", seller, "250")["available"] == 750
    shown = script.json("credits", "show", "--seller", seller)
    assert (shown["granted"], shown["available"], shown["held"], shown["used"]) == (750, 750, 0, 0)
    assert [entry["amount"] for entry in shown["latest_entries"]] == [250, 500]

    tariffs = script.json("tax-category", "set", "--seller", seller, "--index", "1", "--name", "Moda", "--rate", "12.5")
    assert tariffs == script.json("tax-category", "list", "--seller", seller)
    assert tariffs["tax_categories"] == [
        {"index": 0, "name": "General", "rate_percent": "0"},
        {"index": 1, "name": "Moda", "rate_percent": "12.5"},
    ]

    state = script.json(
        *("account", "connect", "--seller", seller, "--environment", "test", "--marketplace-user", "120506781"),
        *("--access-token", "APP_USR-x-120506781", "--refresh-token", "TG-x-120506781"),
    )
    assert state == {
        "seller_id": int(seller),
        "environment": "test",
        "marketplace_user_id": 120506781,
        "status": "connected",
        "nickname": None,
    }
    script.json(
        *("account", "connect", "--seller", seller, "--environment", "live", "--marketplace-user", "120506782"),
        *("--access-token", "-", "--refresh-token", "-"),
        given="APP_USR-y-120506782\nTG-y-120506782\n",
    )
    accounts = script.json("seller", "show", seller)["accounts"]
    assert sorted(account["environment"] for account in accounts) == ["live", "test"]
    gone = script.json("account", "disconnect", "--seller", seller, "--environment", "test")
    assert gone["status"] == "disconnected"


def test_a_key_is_shown_once_and_revoked(script: Script) -> None:
    seller = str(script.json("seller", "add", "--name", "A")["seller_id"])
    made = script.json(
        *("key", "create", "--seller", seller, "--environment", "live", "--scope", "products:write"),
        *("--scope", "account:read", "--expires-at", "2099-01-31T00:00:00-05:00"),
    )
    assert is_well_formed(made["secret"])
    assert made["secret"].startswith("svc_live_")
    assert (made["environment"], sorted(made["scopes"])) == ("live", ["account:read", "products:write"])
    assert made["expires_at"] == "2099-01-31T05:00:00.000Z"
    listed, _ = script("key", "list", "--seller", seller, "--json")
    assert made["secret"] not in listed
    assert json.loads(listed)["keys"][0]["key_id"] == made["key_id"]
    assert "revoked_at" not in json.loads(listed)["keys"][0]
    assert script.json("key", "revoke", made["key_id"])["revoked_at"]
    out, err = script("key", "create", "--seller", seller, "--environment", "test")
    assert "svc_test_" in out
    assert "svc_test_" not in err


def test_refusals_end_with_1_and_name_what_is_wrong(script: Script) -> None:
    seller = str(script.json("seller", "add", "--name", "A")["seller_id"])
    for arguments, code in (
        (("seller", "show", "999"), "E_ADMIN_NOT_FOUND"),
        (("seller", "update", "999", "--trm", "1"), "E_ADMIN_NOT_FOUND"),
        (("seller", "add", "--name", ""), "E_ADMIN_INVALID"),
        (("seller", "add", "--name", "B", "--trm", "0"), "E_ADMIN_INVALID"),
        (("seller", "add", "--name", "B", "--margin", "much"), "E_ADMIN_INVALID"),
        (("seller", "add", "--name", "B", "--site", "MLA"), "E_ADMIN_INVALID"),
        (("key", "create", "--seller", seller, "--environment", "test", "--scope", "all"), "E_ADMIN_INVALID"),
        (
            ("key", "create", "--seller", seller, "--environment", "test", "--expires-at", "2001-01-01T00:00:00Z"),
            "E_ADMIN_INVALID",
        ),
        (("key", "revoke", "key_none"), "E_ADMIN_NOT_FOUND"),
        (("credits", "show", "--seller", "999"), "E_ADMIN_NOT_FOUND"),
        (("tax-category", "set", "--seller", seller, "--index", "5", "--name", "x", "--rate", "1"), "E_ADMIN_INVALID"),
        (("account", "disconnect", "--seller", seller, "--environment", "live"), "E_ADMIN_NOT_FOUND"),
    ):
        assert script.json(*arguments, code=1)["error"]["code"] == code
    _, line = script("seller", "show", "999", code=1)
    assert line == "refused: There is no such seller. (E_ADMIN_NOT_FOUND)\n"


def test_usage_errors_end_with_2(script: Script) -> None:
    script("key", "create", "--seller", "1", "--environment", "both", code=2)
    script("key", "create", "--seller", "1", "--environment", "test", "--expires-at", "soon", code=2)
    script("key", "create", "--seller", "1", "--environment", "test", "--expires-at", "2099-01-31T00:00:00", code=2)
    script("seller", "update", "1", code=2)
    script("catalog", "import", "absent.csv", code=2)


def test_tokens_are_kept_encrypted_or_not_at_all(script: Script) -> None:
    seller = str(script.json("seller", "add", "--name", "A")["seller_id"])
    arguments = ["account", "connect", "--seller", seller, "--environment", "live", "--marketplace-user", "5"]
    script.patch.delenv("LISTINGS_SECRET_KEY")
    _, refused = script(*arguments, "--access-token", "APP_USR-secret-5", code=2)
    assert "LISTINGS_SECRET_KEY" in refused
    assert "APP_USR" not in refused
    assert script.json("seller", "show", seller)["accounts"] == []


def test_catalog_import(script: Script) -> None:
    header = "sku,title,category,cost_usd,image_url\n"
    path = script.folder / "products.csv"
    path.write_text(header + "AAAAAAAAA1,One,c,1,\nbad,Two,c,x,\nAAAAAAAAA3,Three,c,3,\n")
    report = script.json("catalog", "import", "products.csv", "--strict", code=1)
    assert (report["strict_refusal"], report["inserted"], report["refused"]) == (True, 0, 1)
    report = script.json("catalog", "import", "products.csv")
    assert (report["read"], report["inserted"], report["refused"]) == (3, 2, 1)
    assert [(each["line"], each["column"]) for each in report["refusals"]] == [(3, "sku"), (3, "cost_usd")]
    out, err = script("catalog", "import", "products.csv")
    assert "line 3, cost_usd: must be a decimal number" in err
    assert "unchanged  2" in out
    path.write_text(header + "bad,Two,c,x,\n")
    script("catalog", "import", "products.csv", code=1)
    path.write_text("nonsense\n")
    assert script.json("catalog", "import", "products.csv", code=1)["error"]["code"] == "E_CATALOG_FILE"


def test_migrate_may_run_again(script: Script) -> None:
    done = script.json("migrate")
    assert done["applied"] == []
    assert done["version"] >= 1
