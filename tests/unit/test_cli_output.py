"""What commands print, for people and for programs, and how they end."""

from __future__ import annotations

import json
import unicodedata
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest
import typer
from google.protobuf.timestamp_pb2 import Timestamp

from core.errors import ApiError, Violation, invalid
from core.settings import SettingsError
from core.use_cases.administration import invalid_value
from listing_publication.v1 import common_pb2, jobs_pb2
from listings.documents import document
from listings.output import Output, UsageError, cell


def ending(error: BaseException, *, as_json: bool = False) -> int:
    with pytest.raises(typer.Exit) as caught, Output(as_json):
        raise error
    return int(caught.value.exit_code)


def test_endings(capsys: pytest.CaptureFixture[str]) -> None:
    assert ending(ApiError("E_JOB_NOT_FOUND", "There is no such job.")) == 1
    assert ending(UsageError("no database")) == 2
    assert ending(SettingsError("LISTINGS_GRPC_ADDR: must be HOST:PORT")) == 2
    assert ending(KeyboardInterrupt()) == 130
    assert capsys.readouterr().err.splitlines() == [
        "refused: There is no such job. (E_JOB_NOT_FOUND)",
        "listings: no database",
        "listings: LISTINGS_GRPC_ADDR: must be HOST:PORT",
    ]
    with pytest.raises(ZeroDivisionError), Output():
        raise ZeroDivisionError


def test_a_refusal_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    places = [Violation("E_PRODUCT_INVALID_BODY", "must be an integer", parameter="page_size")]
    assert ending(invalid(places), as_json=True) == 1
    assert ending(ApiError("E_RATE_LIMITED", "Slow down.", retry_after=7), as_json=True) == 1
    ended = capsys.readouterr()
    assert ended.err == ""
    first, second = map(json.loads, ended.out.splitlines())
    assert first["error"]["errors"] == [
        {"place": "--limit", "code": "E_PRODUCT_INVALID_BODY", "detail": "must be an integer"}
    ]
    assert second["error"] == {"code": "E_RATE_LIMITED", "detail": "Slow down.", "retry_after": 7}


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            invalid([Violation("E_PRODUCT_INVALID_BODY", "must be a time", "/scheduled_for")]),
            "refused: --schedule: must be a time (E_PRODUCT_INVALID_BODY)",
        ),
        (invalid_value("trm", "must be from 1 to 9"), "refused: --trm must be from 1 to 9. (E_ADMIN_INVALID)"),
        (
            invalid([Violation("E_PRODUCT_INVALID_SKU", "no SKU", "/sku_list/skus/3")]),
            "refused: /skus/3: no SKU (E_PRODUCT_INVALID_SKU)",
        ),
    ],
)
def test_a_refusal_names_the_options_of_the_command_line(
    capsys: pytest.CaptureFixture[str], error: ApiError, line: str
) -> None:
    assert ending(error) == 1
    assert capsys.readouterr().err.splitlines() == [line]


def test_control_characters_of_data_never_reach_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output()
    data = "a\x1b]0;title\x07b\x9bc\rd"
    output.say(data)
    output.warn(data)
    output.facts([("name", data)])
    output.table(["A"], [[data + "\n\t"]])
    ended = capsys.readouterr()
    shown = ended.out + ended.err
    assert not [character for character in shown if character != "\n" and unicodedata.category(character) == "Cc"]
    assert shown.count("a\ufffd]0;title\ufffdb\ufffdc\ufffdd") == 4


def test_text_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output()
    output.say("[red]not markup[/red] \\[x]")
    output.facts([("name", "[bold]"), ("empty", None), ("zero", 0)])
    output.table(["A"], [["[link=x]y"], ["z" * 500]])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "[red]not markup[/red] \\[x]"
    assert [line.rstrip() for line in lines[1:]] == ["name  [bold]", "zero  0", "A", "[link=x]y", "z" * 500]


def test_json_alone_is_printed_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(as_json=True)
    output.say("words")
    output.table(["A"], [["x"]])
    output.facts([("a", 1)])
    output.document({"at": datetime(2026, 11, 27, 1, 2, 3, 456000, tzinfo=UTC), "rate": Decimal("12.500")})
    assert capsys.readouterr().out == '{"at": "2026-11-27T01:02:03.456Z", "rate": "12.5"}\n'


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, ""),
        (True, "yes"),
        (1234567, "1,234,567"),
        (Decimal("12.500"), "12.5"),
        (Decimal(100), "100"),
        (["a", "b"], "a, b"),
        (datetime(2026, 11, 27, 23, 0, tzinfo=timezone(timedelta(hours=-5))), "2026-11-28 04:00:00"),
    ],
)
def test_cells(value: object, shown: str) -> None:
    assert cell(value) == shown


def test_messages_as_documents() -> None:
    item = jobs_pb2.JobItem(
        sku="AAAAAAAAA1",
        status="failed",
        environment=common_pb2.ENVIRONMENT_LIVE,
        retryable=False,
        error=common_pb2.ItemError(code="x", who=common_pb2.WHO_SELLER, causes=[common_pb2.Cause(code="y")]),
    )
    told = document(item)
    assert (told["environment"], told["retryable"], told["price"]) == ("live", False, None)
    assert told["error"] == {
        "code": "x",
        "message": "",
        "who": "seller",
        "causes": [{"code": "y", "message": "", "field": ""}],
    }
    job = jobs_pb2.Job(created_at=Timestamp(seconds=0, nanos=5_000_000))
    assert document(job)["created_at"] == "1970-01-01T00:00:00.005Z"
    assert document(job)["completed_at"] is None
