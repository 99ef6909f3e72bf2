"""``publish``, ``promote``, ``test-products``, ``account`` and ``ping``, with the core server played by the test."""

from __future__ import annotations

import io
import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from core.errors import ApiError, Violation, invalid
from listing_publication.v1 import account_pb2, common_pb2, jobs_pb2, promotion_pb2, publishing_pb2
from tests.support.cli import KEY, CommandLine, command_line

JOB = "01a21f82-15a4-77e3-9b85-0f0e3d3d4634"
SKUS = ["AAAAAAAAA1", "AAAAAAAAA2"]


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> CommandLine:
    return command_line(monkeypatch, capsys, tmp_path)


def sku_file(folder: Path, text: str = "AAAAAAAAA1\nAAAAAAAAA2\n", name: str = "skus.txt") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def accepted(**changes: Any) -> publishing_pb2.CreateJobResponse:
    fields: dict[str, Any] = {"job_id": JOB, "status": "queued", "accepted": 2, "total_items": 2}
    return publishing_pb2.CreateJobResponse(**(fields | changes))


def test_publish_on_test_asks_nobody(cli: CommandLine, tmp_path: Path) -> None:
    cli.start("publish", sku_file(tmp_path))
    cli.ping()
    call = cli.take("PublishingService", "CreateJob")
    assert call.metadata["x-api-key"] == KEY
    assert [(item.sku, item.auto_categorize, item.HasField("category_id")) for item in call.request.items] == [
        ("AAAAAAAAA1", True, False),
        ("AAAAAAAAA2", True, False),
    ]
    assert not call.request.HasField("tax_category_id")
    call.answer(accepted())
    ended = cli.end()
    assert ended.code == 0
    assert JOB in ended.out
    assert "TEST" in ended.err
    assert KEY not in ended.out + ended.err


def test_publish_is_idempotent_by_content(cli: CommandLine, tmp_path: Path) -> None:
    keys = []
    for arguments in (
        [sku_file(tmp_path)],
        [sku_file(tmp_path, "\nAAAAAAAAA1 \n\n# a remark\nAAAAAAAAA2", "other.txt")],
        [sku_file(tmp_path), "--tax-category", "1"],
        [sku_file(tmp_path), "--again"],
        [sku_file(tmp_path), "--idempotency-key", JOB],
    ):
        cli.start("publish", *arguments)
        cli.ping()
        call = cli.take("PublishingService", "CreateJob")
        keys.append(call.request.idempotency_key)
        call.answer(accepted())
        assert cli.end().code == 0
    same, also, otherwise, again, given = keys
    assert same == also
    assert len({same, otherwise, again}) == 3
    assert given == JOB
    assert all(str(uuid.UUID(key)) == key for key in keys)


def test_a_remembered_answer_is_told_as_such(cli: CommandLine, tmp_path: Path) -> None:
    cli.start("publish", sku_file(tmp_path), "--json")
    cli.ping()
    cli.take("PublishingService", "CreateJob").answer(
        accepted(
            replayed=True,
            accepted=1,
            rejected=1,
            rejections=[
                publishing_pb2.Rejection(index=1, sku=SKUS[0], code="duplicate_sku", detail="It stands twice.")
            ],
        )
    )
    ended = cli.end()
    told = json.loads(ended.out)
    assert (told["job_id"], told["replayed"], told["accepted"], told["rejected"]) == (JOB, True, 1, 1)
    assert told["rejections"] == [{"index": 1, "sku": SKUS[0], "code": "duplicate_sku", "detail": "It stands twice."}]
    assert "plan" not in told


def test_live_names_itself_and_nobody_to_ask_means_no(cli: CommandLine, tmp_path: Path) -> None:
    cli.start("publish", sku_file(tmp_path))
    cli.ping(live=True)
    call = cli.take("PublishingService", "CreateJob")
    assert call.request.validate_only
    call.answer(accepted(job_id="", credits_held=2))
    ended = cli.end()
    assert ended.code == 2
    assert "LIVE" in ended.err
    assert "2 products LIVE for 2 credits" in ended.err
    assert "--yes" in ended.err


def test_live_with_yes_goes_on(cli: CommandLine, tmp_path: Path) -> None:
    cli.start("publish", sku_file(tmp_path), "--yes", "--json")
    cli.ping(live=True)
    call = cli.take("PublishingService", "CreateJob")
    assert not call.request.validate_only
    call.answer(accepted(credits_held=2))
    ended = cli.end()
    assert ended.code == 0
    assert json.loads(ended.out)["credits_held"] == 2
    assert "LIVE" in ended.err


def test_dry_run_shows_the_cost_and_writes_nothing(cli: CommandLine, tmp_path: Path) -> None:
    plan = [
        publishing_pb2.PlannedItem(sku=SKUS[0], category_id="MCO1055", price=189_900),
        publishing_pb2.PlannedItem(
            sku=SKUS[1], problem=common_pb2.ItemError(code="price_missing", message="It has no cost.")
        ),
    ]
    for extra in ([], ["--json"]):
        cli.start("publish", sku_file(tmp_path), "--dry-run", *extra)
        cli.ping(live=True)
        call = cli.take("PublishingService", "CreateJob")
        assert call.request.validate_only
        assert not call.request.HasField("idempotency_key")
        call.answer(accepted(job_id="", credits_held=2, plan=plan))
        ended = cli.end()
        assert ended.code == 0
        if extra:
            assert json.loads(ended.out)["plan"][0]["price"] == 189_900
        else:
            for words in ("189,900", "MCO1055", "It has no cost.", "Nothing was written."):
                assert words in ended.out


def test_a_refusal_names_lines_of_the_file(cli: CommandLine, tmp_path: Path) -> None:
    content = "sku,category_id\nAAAAAAAAA1,\n\nbad,MCO1055\n"
    places = [Violation("E_PRODUCT_INVALID_SKU", "must be exactly 10 ASCII letters or digits", "/items/1/sku")]
    for extra in ([], ["--json"]):
        cli.start("publish", sku_file(tmp_path, content, "some.csv"), *extra)
        cli.ping()
        call = cli.take("PublishingService", "CreateJob")
        assert [(item.sku, item.category_id) for item in call.request.items] == [("AAAAAAAAA1", ""), ("bad", "MCO1055")]
        call.refuse(invalid(places))
        ended = cli.end()
        assert ended.code == 1
        if extra:
            error = json.loads(ended.out)["error"]
            assert error["code"] == "E_PRODUCT_INVALID_SKU"
            assert error["errors"][0]["place"] == "line 4 sku"
        else:
            assert "line 4 sku: must be exactly 10 ASCII letters or digits" in ended.err


def test_forms_of_the_file(cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = '{"sku": "AAAAAAAAA1"}\n{"sku": "AAAAAAAAA2", "category_id": "MCO1055", "auto_categorize": true}\n'

    class Input:
        buffer = io.BytesIO(b"title,SKU\nx,AAAAAAAAA1\n")

    monkeypatch.setattr("sys.stdin", Input)
    for path, expected in (
        (sku_file(tmp_path, lines, "items.jsonl"), [("AAAAAAAAA1", "", True), ("AAAAAAAAA2", "MCO1055", True)]),
        (sku_file(tmp_path, '"title","sku"\n"x","AAAAAAAAA1"\n', "quoted"), [("AAAAAAAAA1", "", True)]),
        ("-", [("AAAAAAAAA1", "", True)]),
    ):
        cli.start("publish", path)
        cli.ping()
        call = cli.take("PublishingService", "CreateJob")
        assert [(item.sku, item.category_id, item.auto_categorize) for item in call.request.items] == expected
        call.answer(accepted())
        assert cli.end().code == 0


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ("", "empty.txt"),
        ("# only remarks\n", "remarks.txt"),
        ("title\nx\n", "no-sku.csv"),
        ("sku,sku\n", "twice.csv"),
        ('sku\n"open\n', "open.csv"),
        ("[1]\n", "list.jsonl"),
        ('{"sku": 5}\n', "number.jsonl"),
        ('{"sku": "\\ud800AAAAAAAAA"}\n', "half-a-character.jsonl"),
        ('{"sku": "AAAAAAAAA1", "category_id": "MCO\\udfff"}\n', "half-a-category.jsonl"),
    ],
)
def test_a_file_that_says_nothing_useful_is_a_usage_error(
    cli: CommandLine, tmp_path: Path, content: str, name: str
) -> None:
    ended = cli.run("publish", sku_file(tmp_path, content, name))
    assert ended.code == 2
    assert len(ended.err.strip().splitlines()) == 1
    assert cli.run("publish", str(tmp_path / "absent.csv")).code == 2


def test_a_file_that_is_no_utf_8(cli: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "latin.csv"
    path.write_bytes("sku,título\n".encode("latin-1"))
    ended = cli.run("publish", str(path))
    assert ended.code == 2
    assert "UTF-8" in ended.err


def test_publish_with_watch_follows_the_job(cli: CommandLine, tmp_path: Path) -> None:
    cli.start("publish", sku_file(tmp_path), "--watch", "--json")
    cli.ping()
    cli.take("PublishingService", "CreateJob").answer(accepted())
    stream = cli.take("JobService", "WatchJob")
    assert stream.request.job_id == JOB
    job = jobs_pb2.Job(job_id=JOB, status="completed", total_items=2, successful=2, last_sequence=2)
    stream.send([jobs_pb2.WatchJobResponse(job=job)])
    stream.end()
    told = json.loads(cli.end().out)
    assert (told["accepted"], told["job"]["status"], told["failures"]) == (2, "completed", [])


def promoted(**changes: Any) -> promotion_pb2.PromoteTestProductsResponse:
    fields: dict[str, Any] = {
        "job_id": JOB,
        "status": "queued",
        "promoted": 2,
        "total_candidates": 2,
        "credits_held": 2,
    }
    return promotion_pb2.PromoteTestProductsResponse(**(fields | changes))


def test_promote_without_names_takes_the_next_candidates(cli: CommandLine) -> None:
    cli.start("promote", "--yes")
    cli.ping(live=True)
    call = cli.take("PromotionService", "PromoteTestProducts")
    assert not call.request.HasField("sku_list")
    assert not call.request.HasField("idempotency_key")
    call.answer(promoted(remaining=5))
    ended = cli.end()
    assert ended.code == 0
    assert "5 more candidates" in ended.out


def test_promote_names_skus_and_asks_first(cli: CommandLine, tmp_path: Path) -> None:
    cli.start("promote", SKUS[0], "--file", sku_file(tmp_path, SKUS[1]))
    cli.ping(live=True)
    call = cli.take("PromotionService", "PromoteTestProducts")
    assert call.request.validate_only
    assert list(call.request.sku_list.skus) == SKUS
    call.answer(promoted(job_id=""))
    ended = cli.end()
    assert ended.code == 2
    assert "Promote 2 products LIVE for 2 credits?" in ended.err


def test_a_person_is_asked(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr("listings.output._keyboard", lambda: True)
    for answer, code in ((False, 1), (True, 0)):
        monkeypatch.setattr("typer.confirm", lambda question, answer=answer: answer)
        cli.start("promote", *SKUS)
        cli.ping(live=True)
        cli.take("PromotionService", "PromoteTestProducts").answer(promoted(job_id=""))
        if answer:
            call = cli.take("PromotionService", "PromoteTestProducts")
            assert not call.request.validate_only
            assert call.request.idempotency_key
            call.answer(promoted())
        ended = cli.end()
        assert ended.code == code
        assert "\x1b[" in ended.err  # in colour, and in words
        assert "LIVE" in ended.err


def test_promote_refused(cli: CommandLine) -> None:
    cli.start("promote", "--yes", "--json")
    cli.ping(live=True)
    cli.take("PromotionService", "PromoteTestProducts").refuse(
        ApiError("E_PROMOTE_NO_CANDIDATES", "No publishable test product matches.")
    )
    ended = cli.end()
    assert ended.code == 1
    assert json.loads(ended.out)["error"]["code"] == "E_PROMOTE_NO_CANDIDATES"


def test_promote_with_a_test_key_is_refused_before_anything_is_named(cli: CommandLine) -> None:
    cli.start("promote", "--yes")
    cli.ping()
    ended = cli.end()
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("refused: ")
    assert "E_PROMOTE_REQUIRES_LIVE_KEY" in ended.err


def test_test_products_are_paged_to_the_limit(cli: CommandLine) -> None:
    cli.start("test-products", "--limit", "1500", "--pending", "--json")
    sizes = []
    for size, token in ((1000, "next"), (500, "more")):
        call = cli.take("PromotionService", "ListTestProducts")
        sizes.append((call.request.page_size, call.request.page_token))
        assert call.request.already_published is False
        products = [promotion_pb2.TestProduct(sku=SKUS[0], price=100, app_status=1)] * size
        call.answer(promotion_pb2.ListTestProductsResponse(products=products, total=2_000, next_page_token=token))
    ended = cli.end()
    assert sizes == [(1000, ""), (500, "next")]
    told = json.loads(ended.out)
    assert (len(told["products"]), told["total"]) == (1_500, 2_000)
    assert told["products"][0]["title"] is None


@pytest.mark.parametrize("arguments", [["account"], ["account", "show"]])
def test_account(cli: CommandLine, arguments: list[str]) -> None:
    answer = account_pb2.GetAccountResponse(
        seller_id=7,
        site_id="MCO",
        currency="COP",
        credits=account_pb2.Credits(total=100, available=98, used_live=2),
        publishing_config=account_pb2.PublishingConfig(trm=4000, margin_percent="30"),
        ml_connected=True,
    )
    cli.start(*arguments)
    cli.take("AccountService", "GetAccount").answer(answer)
    ended = cli.end()
    assert ended.code == 0
    assert "98 of 100" in ended.out
    cli.start(*arguments, "--json")
    cli.take("AccountService", "GetAccount").answer(answer)
    assert json.loads(cli.end().out)["credits"] == {"total": 100, "available": 98, "used_live": 2, "used_test": 0}


def test_ping_tells_what_the_key_is(cli: CommandLine) -> None:
    cli.start("ping", "--json").ping(live=True)
    told = json.loads(cli.end().out)
    assert told == {
        "status": "ok",
        "seller_id": 7,
        "environment": "live",
        "scopes": ["products:read"],
        "key_id": "key_0123456789abcdefg",
        "expires_at": None,
    }


def test_ways_to_give_the_key(cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LISTINGS_API_KEY")
    (tmp_path / "a.key").write_text("svc_test_from-a-file\n")
    (tmp_path / ".listings").mkdir()
    demo = {"test_key": "svc_test_demo", "live_key": "svc_live_demo", "grpc_target": "127.0.0.1:1"}
    (tmp_path / ".listings" / "demo.json").write_text(json.dumps(demo))
    monkeypatch.setattr("sys.stdin", io.StringIO("svc_test_from-input\n"))
    for arguments, key, target in (
        (["--key-file", "a.key"], "svc_test_from-a-file", "127.0.0.1:50051"),
        (["--key-file", "-"], "svc_test_from-input", "127.0.0.1:50051"),
        (["--demo", "live"], "svc_live_demo", "127.0.0.1:1"),
    ):
        cli.start("ping", *arguments)
        call = cli.take("AccountService", "Ping")
        assert call.metadata["x-api-key"] == key
        call.answer(account_pb2.PingResponse(seller_id=7))
        ended = cli.end()
        assert (ended.code, cli.targets[-1]) == (0, target)
        assert key not in ended.out + ended.err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--key-file", "absent"],
        ["--demo", "test"],
        ["--demo", "both"],
        ["--key-file", "a.key", "--demo", "test"],
        ["--key-file", "blank.key"],
        ["--key-file", "two-words.key"],
    ],
)
def test_no_key_is_a_usage_error(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.delenv("LISTINGS_API_KEY")
    (tmp_path / "a.key").write_text("svc_test_x")
    (tmp_path / "blank.key").write_text("\n")
    (tmp_path / "two-words.key").write_text("svc_test_x secret")
    ended = cli.run("ping", *arguments)
    assert ended.code == 2
    assert "secret" not in ended.err


def test_a_wrong_setting_is_one_line(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LISTINGS_GRPC_ADDR", "nonsense")
    ended = cli.run("ping")
    assert ended.code == 2
    assert ended.err == "listings: LISTINGS_GRPC_ADDR: must be HOST:PORT\n"
    assert json.loads(cli.run("ping", "--json").out)["error"]["code"] == "E_USAGE"
