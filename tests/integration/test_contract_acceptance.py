"""Lines of the contract about accepting, refusing, cancelling and retrying that need no marketplace."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from core.domain.api_key import digest, new_key
from core.domain.states import Environment
from core.use_cases import administration
from tests.integration.conftest import NewSeller
from tests.support.rest import Seller, places, problem
from tests.support.service import skus

if TYPE_CHECKING:
    from tests.support.gateway import Answer

COUNTERS = ("pending", "successful", "failed", "skipped")


def adds_up(job: dict[str, int]) -> bool:
    """Decisions, section 2: the counters of a job add up in every answer."""
    return job["total_items"] == sum(job[name] for name in COUNTERS)


async def connect(seller: Seller, environment: Environment) -> None:
    """Connects an account that the sandbox would accept."""
    application = seller.tenant.application
    await administration.connect_account(
        application.database,
        application.cipher,
        seller.tenant.seller_id,
        environment,
        marketplace_user_id=77_000_000 + seller.tenant.seller_id,
        access_token=f"APP_USR-{uuid.uuid4().hex}-{77_000_000 + seller.tenant.seller_id}",
    )


def change(database_url: str, statement: str, *values: object) -> int:
    """Changes rows behind the service's back, as the passing of time would; the number of rows."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        return connection.execute(statement.encode(), values).rowcount


# Accepting.


async def test_the_answer_to_a_publication_has_the_fields_of_the_contract(seller: Seller) -> None:
    answer = await seller.live.publish("AAAAAAAAA1", "AAAAAAAAA2")

    assert answer.status == 202
    body = answer.json
    assert uuid.UUID(body.pop("job_id")).version == 7
    assert body == {"status": "queued", "accepted": 2, "rejected": 0, "total_items": 2}


async def test_a_repeated_sku_is_rejected_and_costs_nothing(seller: Seller) -> None:
    answer = await seller.live.publish("AAAAAAAAA1", "AAAAAAAAA2", "AAAAAAAAA1", "aaaaaaaaa1", "AAAAAAAAA1")
    body = answer.json

    assert (body["accepted"], body["rejected"], body["total_items"]) == (3, 2, 5)
    assert [(each["index"], each["sku"]) for each in body["rejections"]] == [(2, "AAAAAAAAA1"), (4, "AAAAAAAAA1")]
    assert all(each["code"] and each["detail"] for each in body["rejections"])
    detail = await seller.live.job(body["job_id"])
    assert [item["status"] for item in detail["items"]] == ["pending", "pending", "skipped", "pending", "skipped"]
    assert detail["items"][2]["error"]["code"] == body["rejections"][0]["code"]
    assert adds_up(detail["job"])
    assert await seller.tenant.credits() == (100_000, 99_997, 3, 0, 0)


async def test_a_test_key_costs_nothing(seller: Seller) -> None:
    assert (await seller.test.publish(*skus(7))).status == 202

    assert await seller.tenant.credits() == (100_000, 100_000, 0, 0, 0)
    assert (await seller.test.get("/account")).json["credits"]["available"] == 100_000


async def test_unknown_members_are_tolerated_and_null_is_absent(seller: Seller) -> None:
    body = {
        "items": [{"sku": "AAAAAAAAA1", "category_id": None, "auto_categorize": True, "colour": [{"deep": 1}]}],
        "listing_type_id": None,
        "tax_category_id": None,
        "scheduled_for": None,
        "unknown": {"x": None},
    }

    assert (await seller.live.post("/products", body)).status == 202


@pytest.mark.parametrize("listing_type", ["gold_pro", "gold_special", "gold_premium", "gold", "silver", "bronze"])
async def test_each_listing_type_of_the_contract_is_taken(seller: Seller, listing_type: str) -> None:
    assert (await seller.test.publish("AAAAAAAAA1", listing_type_id=listing_type)).status == 202


async def test_the_environment_comes_from_the_key_and_not_from_the_body(seller: Seller) -> None:
    made = (await seller.test.publish("AAAAAAAAA1", environment="live", test=False)).json

    assert (await seller.live.job(made["job_id"]))["job"]["environment"] == "test"


async def test_a_tariff_must_be_one_that_the_seller_has(seller: Seller) -> None:
    application = seller.tenant.application
    refused = await seller.live.publish("AAAAAAAAA1", tax_category_id=1)
    await administration.set_tax_category(
        application.database, seller.tenant.seller_id, index=1, name="Books", rate_percent="5"
    )

    assert places(problem(refused, 422, "E_PRODUCT_INVALID_BODY")) == [("/tax_category_id", "E_PRODUCT_INVALID_BODY")]
    assert (await seller.live.publish("AAAAAAAAA1", tax_category_id=1)).status == 202
    listed = (await seller.live.get("/account/tax-categories")).json["tax_categories"]
    assert listed[1] == {"index": 1, "name": "Books", "rate_percent": 5}


# Schedules.


def at(minutes: float) -> str:
    """The minute that lies that far ahead."""
    return (datetime.now(UTC) + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M")


async def test_a_scheduled_job_says_queued_once_and_scheduled_from_then_on(seller: Seller) -> None:
    moment = at(10)
    made = (await seller.live.publish("AAAAAAAAA1", scheduled_for=moment)).json
    job = (await seller.live.job(made["job_id"]))["job"]

    assert made["status"] == "queued"
    assert job["status"] == "scheduled"
    assert job["scheduled_for"] == f"{moment}:00.000Z"
    assert job["waiting_reason"]


@pytest.mark.parametrize(
    ("sent", "corrected"),
    [
        ("{}:00", "send {}"),
        ("{}Z", "send {}"),
        ("{}:30+00:00", "send {}"),
        ("{} ", None),
        (" {}", None),
        ("2027-02-30T10:00", None),
        ("tomorrow", None),
        ("{}\n", None),
    ],
)
async def test_a_schedule_of_another_form_is_refused_with_the_corrected_text(
    seller: Seller, sent: str, corrected: str | None
) -> None:
    moment = at(60)
    refused = await seller.live.publish("AAAAAAAAA1", scheduled_for=sent.format(moment))
    body = problem(refused, 422, "E_PRODUCT_INVALID_BODY")

    assert places(body) == [("/scheduled_for", "E_PRODUCT_INVALID_BODY")]
    assert "5 minutes" in body["errors"][0]["detail"]
    assert "30 days" in body["errors"][0]["detail"]
    if corrected is not None:
        assert corrected.format(moment) in body["errors"][0]["detail"]
    else:
        assert sent.format(moment) not in str(body)


# Accounts.


async def test_a_test_key_without_a_test_account_gets_a_job_that_has_failed(new_seller: NewSeller) -> None:
    seller = await new_seller(connected=["live"])
    made = (await seller.test.publish("AAAAAAAAA1", "AAAAAAAAA2", "AAAAAAAAA1")).json
    detail = await seller.test.job(made["job_id"])
    job = detail["job"]

    assert made["status"] == "queued"
    assert (job["status"], job["failed"], job["skipped"]) == ("failed", 2, 1)
    assert job["error_message"]
    assert job["completed_at"] is not None
    assert adds_up(job)
    assert [item["retryable"] for item in detail["items"]] == [True, True, False]
    assert detail["items"][0]["error"]["who"] == "seller"


async def test_whether_an_account_is_connected_is_told_for_the_keys_environment(new_seller: NewSeller) -> None:
    seller = await new_seller(connected=["test"])

    assert (await seller.live.get("/account")).json["ml_connected"] is False
    assert (await seller.test.get("/account")).json["ml_connected"] is True
    problem(await seller.live.publish("AAAAAAAAA1"), 404, "E_ACCOUNT_NOT_FOUND")
    problem(await seller.live.post("/products/test/promote"), 404, "E_ACCOUNT_NOT_FOUND")


# The order of checks.


async def test_what_the_body_means_is_told_before_account_jobs_and_credits(new_seller: NewSeller) -> None:
    seller = await new_seller(connected=[], balance=0)
    await fill_slots(seller)

    problem(await seller.live.publish("short"), 422, "E_PRODUCT_INVALID_SKU")
    problem(await seller.live.publish("AAAAAAAAA1"), 404, "E_ACCOUNT_NOT_FOUND")
    await connect(seller, Environment.LIVE)
    problem(await seller.live.publish("AAAAAAAAA1"), 429, "E_PRODUCT_MAX_CONCURRENT_JOBS")
    problem(await seller.live.post("/products/test/promote"), 400, "E_PROMOTE_NO_CANDIDATES")
    await empty_slots(seller)
    problem(await seller.live.publish("AAAAAAAAA1"), 400, "E_PRODUCT_CREDIT_EXHAUSTED")


async def fill_slots(seller: Seller) -> None:
    """Six active jobs, made with the test key; its account is connected if need be."""
    if not (await seller.test.get("/account")).json["ml_connected"]:
        await connect(seller, Environment.TEST)
    for number in range(6):
        assert (await seller.test.publish(f"SLOT00000{number}")).status == 202


async def empty_slots(seller: Seller) -> None:
    """Cancels every active job."""
    for status in ("queued", "processing", "scheduled"):
        for job in (await seller.test.get("/products/jobs", status=status)).json["jobs"]:
            assert (await seller.test.post(f"/products/jobs/{job['job_id']}/cancel")).status == 200


async def test_a_replay_answers_whatever_has_changed_since(seller: Seller, database_url: str) -> None:
    application, seller_id = seller.tenant.application, seller.tenant.seller_id
    await administration.set_tax_category(application.database, seller_id, index=1, name="Books", rate_percent="5")
    headers = {"Idempotency-Key": str(uuid.uuid4())}
    first = await seller.live.publish("AAAAAAAAA1", tax_category_id=1, headers=headers)
    # The tariff goes, then the account, then the slots: each would refuse a new request.
    assert change(database_url, "DELETE FROM tax_categories WHERE seller_id = %s AND index = 1", seller_id) == 1
    await administration.disconnect_account(application.database, seller_id, Environment.LIVE)
    for number in range(5):
        assert (await seller.test.publish(f"SLOT00000{number}")).status == 202
    again = await seller.live.publish("AAAAAAAAA1", tax_category_id=1, headers=headers)

    assert first.status == 202
    assert (again.status, again.body) == (202, first.body)
    assert again.headers["idempotent-replay"] == "true"
    problem(await seller.live.publish("AAAAAAAAA1", tax_category_id=1), 422, "E_PRODUCT_INVALID_BODY")


async def test_a_conflict_is_told_before_what_the_body_means_and_after_its_shape(seller: Seller) -> None:
    headers = {"Idempotency-Key": str(uuid.uuid4())}
    assert (await seller.live.publish("AAAAAAAAA1", headers=headers)).status == 202

    problem(await seller.live.publish("short", headers=headers), 409, "E_IDEMPOTENCY_CONFLICT")
    problem(await seller.live.post("/products", {"items": 1}, headers=headers), 422, "E_PRODUCT_INVALID_BODY")
    problem(
        await seller.live.post("/products/test/promote", {"skus": ["AAAAAAAAA1"]}, headers=headers),
        409,
        "E_IDEMPOTENCY_CONFLICT",
    )


async def test_a_refused_request_leaves_its_key_unused(new_seller: NewSeller) -> None:
    seller = await new_seller(connected=["test"])
    headers = {"Idempotency-Key": str(uuid.uuid4())}
    problem(await seller.live.publish("AAAAAAAAA1", headers=headers), 404, "E_ACCOUNT_NOT_FOUND")
    await connect(seller, Environment.LIVE)
    answer = await seller.live.publish("AAAAAAAAA2", headers=headers)

    assert answer.status == 202
    assert "idempotent-replay" not in answer.headers


async def test_after_a_day_an_idempotency_key_is_new_again(seller: Seller, database_url: str) -> None:
    headers = {"Idempotency-Key": str(uuid.uuid4())}
    first = await seller.live.publish("AAAAAAAAA1", headers=headers)
    aged = "UPDATE idempotency_keys SET created_at = created_at - %s::interval WHERE seller_id = %s"
    assert change(database_url, aged, "23 hours 59 minutes", seller.tenant.seller_id) == 1
    within = await seller.live.publish("AAAAAAAAA1", headers=headers)
    assert change(database_url, aged, "1 minute", seller.tenant.seller_id) == 1
    after = await seller.live.publish("AAAAAAAAA1", headers=headers)

    assert within.body == first.body
    assert after.status == 202
    assert after.json["job_id"] != first.json["job_id"]
    assert "idempotent-replay" not in after.headers


# Cancelling and retrying.


async def test_cancel_shows_the_job_and_gives_the_credits_back(seller: Seller) -> None:
    job_id = (await seller.live.publish(*skus(5))).json["job_id"]
    answer = await seller.test.post(f"/products/jobs/{job_id}/cancel", {"anything": "is not read"})
    detail = await seller.live.job(job_id)

    assert answer.status == 200
    assert answer.json["status"] == "cancelled"
    assert (answer.json["cancelled_items"], answer.json["in_flight"]) == (5, 0)
    assert answer.json["completed_at"] is not None
    assert {item["status"] for item in detail["items"]} == {"skipped"}
    assert all(item["retryable"] is False and item["error"]["code"] for item in detail["items"])
    assert adds_up(detail["job"])
    assert await seller.tenant.credits() == (100_000, 100_000, 0, 0, 0)


async def test_a_scheduled_job_can_be_cancelled(seller: Seller) -> None:
    job_id = (await seller.live.publish("AAAAAAAAA1", scheduled_for=at(30))).json["job_id"]

    assert (await seller.live.post(f"/products/jobs/{job_id}/cancel")).json["status"] == "cancelled"
    problem(await seller.live.post(f"/products/jobs/{job_id}/cancel"), 400, "E_JOB_ALREADY_TERMINAL")


async def failed_job(seller: Seller, count: int = 3) -> str:
    """A test job whose items all failed and may be retried: there was no account."""
    job_id: str = (await seller.test.publish(*skus(count))).json["job_id"]
    assert (await seller.test.job(job_id))["job"]["status"] == "failed"
    return job_id


async def test_retry_sends_the_failed_items_again(new_seller: NewSeller) -> None:
    seller = await new_seller(connected=["live"])
    job_id = await failed_job(seller)
    await connect(seller, Environment.TEST)
    answer = await seller.test.post(f"/products/jobs/{job_id}/retry", body=b"not read")
    job = answer.json
    detail = await seller.test.job(job_id)

    assert answer.status == 202
    assert (job["job_id"], job["status"], job["retried"]) == (job_id, "queued", 3)
    assert (job["pending"], job["failed"]) == (3, 0)
    assert job["completed_at"] is None
    assert "error_message" not in job
    assert [item["status"] for item in detail["items"]] == ["pending"] * 3
    assert adds_up(job)
    problem(await seller.test.post(f"/products/jobs/{job_id}/retry"), 400, "E_JOB_NOT_RETRYABLE")


async def test_retry_needs_a_key_of_the_jobs_environment(new_seller: NewSeller) -> None:
    seller = await new_seller(connected=["live"])
    job_id = await failed_job(seller)
    body = problem(await seller.live.post(f"/products/jobs/{job_id}/retry"), 400, "E_JOB_NOT_RETRYABLE")

    assert "test key" in body["detail"]
    assert (await seller.test.job(job_id))["job"]["status"] == "failed"


async def test_a_retry_is_not_refused_for_active_jobs_but_counts_as_one(new_seller: NewSeller) -> None:
    seller = await new_seller(connected=["live"])
    job_id = await failed_job(seller)
    await fill_slots(seller)
    retried: Answer = await seller.test.post(f"/products/jobs/{job_id}/retry")

    assert retried.status == 202
    first = (await seller.test.get("/products/jobs", status="queued")).json["jobs"][0]
    assert (await seller.test.post(f"/products/jobs/{first['job_id']}/cancel")).status == 200
    problem(await seller.test.publish("AAAAAAAAA1"), 429, "E_PRODUCT_MAX_CONCURRENT_JOBS")


async def test_scheduled_jobs_and_both_environments_count_as_active(seller: Seller) -> None:
    for number in range(3):
        assert (await seller.test.publish(f"SLOT00000{number}")).status == 202
        assert (await seller.live.publish(f"SLOT00001{number}", scheduled_for=at(20))).status == 202

    problem(await seller.test.publish("AAAAAAAAA1"), 429, "E_PRODUCT_MAX_CONCURRENT_JOBS")
    await empty_slots(seller)
    assert (await seller.test.publish("AAAAAAAAA1")).status == 202


# Reading.


async def test_the_job_list_has_fifty_jobs_a_page_newest_first_and_days_are_inclusive(seller: Seller) -> None:
    made = []
    for number in range(51):
        job_id = (await seller.test.publish(f"PAGE0000{number:02d}")).json["job_id"]
        assert (await seller.test.post(f"/products/jobs/{job_id}/cancel")).status == 200
        made.append(job_id)
    page = (await seller.live.get("/products/jobs")).json
    today = datetime.now(UTC).date()
    days = (await seller.live.get("/products/jobs", from_=today - timedelta(days=1), to=today)).json

    assert [job["job_id"] for job in page["jobs"]] == made[:0:-1]
    assert page["pagination"] == {"limit": 50, "offset": 0, "returned": 50, "total": 51}
    assert days["pagination"]["total"] == 51
    assert (await seller.live.get("/products/jobs", offset=50)).json["jobs"][0]["job_id"] == made[0]
    assert (await seller.live.get("/products/jobs", limit=1000)).json["pagination"]["returned"] == 51
    problem(await seller.live.get("/products/jobs", limit=1001), 422, "E_PRODUCT_INVALID_BODY")


async def test_an_error_of_the_database_is_told_as_unavailable(own_database_url: str) -> None:
    from grpc_server.server import CoreServer
    from tests.support import service
    from tests.support.gateway import gateway
    from tests.support.rest import seller_of

    application = service.new_application(own_database_url)
    await application.open()
    server = CoreServer(application)
    await server.start()
    try:
        async with gateway(server.target) as client:
            seller = seller_of(client, await service.new_tenant(application))
            change(own_database_url, "ALTER TABLE job_items RENAME TO job_items_away")
            body = problem(await seller.live.publish("AAAAAAAAA1"), 503, "E_INTERNAL")
            change(own_database_url, "ALTER TABLE job_items_away RENAME TO job_items")
            healed = await seller.live.publish("AAAAAAAAA1")
    finally:
        await server.drain()
        await application.close()

    assert "job_items" not in str(body)
    assert healed.status == 202


# Headers and secrets.


async def test_every_answer_announces_the_end_of_v1_and_names_its_request(seller: Seller) -> None:
    answers = [
        await seller.live.publish("AAAAAAAAA1"),
        await seller.live.get("/account"),
        await seller.live.post("/products", {}),
        await seller.with_key(None).get("/ping"),
        await seller.live.get("/nowhere"),
        await seller.client.call("DELETE", "/products", key=seller.tenant.live_key),
    ]

    assert [answer.status for answer in answers] == [202, 200, 422, 401, 404, 405]
    for answer in answers:
        assert answer.headers["deprecation"] == "@1769817600"
        assert answer.headers["sunset"] == "Sun, 31 Jan 2027 23:59:59 GMT"
        assert len(answer.headers["x-request-id"]) >= 16
    assert len({answer.headers["x-request-id"] for answer in answers}) == len(answers)
    named = await seller.client.call("GET", "/ping", key=seller.tenant.live_key, headers={"X-Request-Id": "mine-1"})
    assert named.headers["x-request-id"] == "mine-1"


async def test_without_limits_no_rate_is_announced(seller: Seller) -> None:
    answer = await seller.live.get("/ping")

    assert answer.status == 200
    assert "ratelimit" not in answer.headers
    assert "ratelimit-policy" not in answer.headers


async def test_a_seller_may_have_any_number_of_keys(seller: Seller) -> None:
    keys = [(await seller.tenant.key())[1] for _ in range(30)]
    answers = [await seller.with_key(key).get("/ping") for key in keys]

    assert {answer.status for answer in answers} == {200}
    assert len({answer.json["key_id"] for answer in answers}) == 30
    assert all("expires_at" not in answer.json for answer in answers)


async def test_of_a_key_the_database_holds_its_digest_and_last_four_characters_only(
    seller: Seller, database_url: str
) -> None:
    with psycopg.connect(database_url) as connection:
        rows = connection.execute(
            "SELECT k::text, encode(key_hash, 'hex'), last_four FROM api_keys k WHERE seller_id = %s",
            (seller.tenant.seller_id,),
        ).fetchall()

    assert len(rows) == 2
    digests = {digest(key).hex() for key in (seller.tenant.live_key, seller.tenant.test_key)}
    assert {row[1] for row in rows} == digests
    for text, _, last_four in rows:
        for key in (seller.tenant.live_key, seller.tenant.test_key):
            assert key[9:-4] not in text
        assert last_four in (seller.tenant.live_key[-4:], seller.tenant.test_key[-4:])


async def test_no_secret_reaches_a_log_or_an_answer(seller: Seller, capfd: pytest.CaptureFixture[str]) -> None:
    idempotency_key = str(uuid.uuid4())
    bad_key = new_key(Environment.LIVE).secret
    answers = [
        await seller.live.publish("AAAAAAAAA1", headers={"Idempotency-Key": idempotency_key}),
        await seller.live.publish("AAAAAAAAA2", headers={"Idempotency-Key": idempotency_key}),
        await seller.with_key(bad_key).get("/account"),
        await seller.with_key(bad_key + "x").get("/products/jobs", status="completed"),
        await seller.live.get("/products/test", sku="SECRET"),
    ]
    output = "".join(capfd.readouterr()) + "".join(str(answer.body) + str(answer.headers) for answer in answers)

    assert [answer.status for answer in answers] == [202, 409, 401, 401, 422]
    for secret in (seller.tenant.live_key, seller.tenant.test_key, bad_key, idempotency_key, "SECRET"):
        assert secret not in output
    assert "/api/v1/products" in output
