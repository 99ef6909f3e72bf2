"""The sandbox's faults: which requests a rule strikes, and what each kind does."""

from __future__ import annotations

import json
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import pytest

from sandbox.faults import KINDS
from tests.support.sandbox_shop import USER, Shop


def created(shop: Shop) -> int:
    total: int = shop.call("GET", "/sandbox/counters").body["created"]
    return total


# Kinds that do nothing in the market


@pytest.mark.parametrize(
    ("fault", "status", "text"),
    [
        ("error_500", 500, "internal_server_error"),
        ("error_502", 502, "bad_gateway"),
        ("error_503", 503, "service_not_available"),
        ("error_504", 504, "gateway_timeout"),
        ("html_502", 502, "<html>"),
        ("rate_limit", 429, "local_rate_limited"),
        ("rate_limit_seconds", 429, "too_many_requests"),
        ("rate_limit_date", 429, "too_many_requests"),
        ("rate_limit_absurd", 429, "too_many_requests"),
        ("locked_423", 423, "locked"),
        ("unauthorized_401", 401, "invalid access token"),
        ("token_revoked", 401, "invalid access token"),
        ("token_expired", 401, "expired_token"),
        ("payment_402", 402, ""),
        ("unable_to_list_403", 403, "seller.unable_to_list"),
        ("forbidden_403", 403, "FORBIDDEN"),
        ("not_found_404", 404, "not_found"),
        ("redirect_302", 302, ""),
        ("refuse_400", 400, "item.pictures.unavailable"),
        ("picture_quota_400", 400, "quota"),
        ("account_outage", 503, "service_not_available"),
        ("http_200_not_json", 200, "OK"),
    ],
)
def test_an_answer_in_place_of_the_work(fault: str, status: int, text: str) -> None:
    shop = Shop()
    shop.fault(fault=fault, operation="item_create", times=1)
    reply = shop.create()
    assert reply.status == status
    assert text in reply.answer.body.decode()
    assert created(shop) == 0
    assert shop.create().status == (401 if fault in {"token_revoked", "token_expired"} else 201)


def test_retry_after_in_all_its_forms() -> None:
    shop = Shop()
    shop.fault(fault="rate_limit", nth=1)
    shop.fault(fault="rate_limit_seconds", seconds=7, times=1)
    shop.fault(fault="rate_limit_date", seconds=30, times=1)
    shop.fault(fault="rate_limit_absurd", times=1)
    shop.fault(fault="rate_limit_absurd", retry_after="soon", times=1)
    replies = [shop.create() for _ in range(5)]
    assert {reply.status for reply in replies} == {429}
    values = [reply.headers.get("retry-after") for reply in replies]
    assert values[0] is None
    assert values[1] == "7"
    assert parsedate_to_datetime(values[2] or "").timestamp() == int(shop.clock.now) + 30
    assert values[3:] == ["999999", "soon"]


@pytest.mark.parametrize(("fault", "delivery"), [("reset_before", "reset"), ("silence_before", "silence")])
def test_dropped_before_anything_happens(fault: str, delivery: str) -> None:
    shop = Shop()
    shop.fault(fault=fault, operation="item_create")
    assert shop.create().answer.delivery == delivery
    assert created(shop) == 0


def test_delays_before_and_after() -> None:
    shop = Shop()
    shop.fault(fault="delay_before", operation="item_create", seconds=3, times=1)
    before = shop.create().answer
    assert (before.delay_seconds, created(shop)) == (3, 0)
    assert before.later is not None
    assert before.later().status == 201
    assert created(shop) == 1
    shop.fault(fault="delay_after", operation="item_create", seconds=4, times=1)
    after = shop.create("B000000002").answer
    assert (after.delay_seconds, after.status, created(shop)) == (4, 201, 2)


# Kinds that strike after the work was done


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("reset_after", lambda answer: answer.delivery == "reset"),
        ("silence_after", lambda answer: answer.delivery == "silence"),
        ("error_after", lambda answer: answer.status == 500),
        ("html_after", lambda answer: answer.status == 502 and answer.content_type == "text/html"),
        ("truncated_body", lambda answer: answer.delivery == "truncate"),
        ("broken_json", lambda answer: answer.status == 201 and not answer.body.endswith(b"}")),
        ("empty_body", lambda answer: (answer.status, answer.body) == (201, b"")),
        ("huge_body", lambda answer: len(answer.body) == 20_000_000 and json.loads(answer.body)["id"]),
        ("deep_body", lambda answer: answer.body.count(b"[") == 100_000),
        ("slow_drip", lambda answer: (answer.delivery, answer.chunk_bytes) == ("drip", 16)),
        ("wrong_content_type", lambda answer: answer.content_type.startswith("text/html")),
        ("missing_id", lambda answer: "id" not in json.loads(answer.body)),
        ("odd_types", lambda answer: json.loads(answer.body)["id"] == 17),
    ],
)
def test_the_work_is_done_and_the_answer_is_spoilt(fault: str, check: Callable[[Any], bool]) -> None:
    shop = Shop()
    shop.fault(fault=fault)
    assert check(shop.create().answer)
    assert created(shop) == 1
    assert shop.call("GET", "/sandbox/faults").body["fired_by_kind"] == {fault: 1}


def test_206_is_a_success_that_lacks_something() -> None:
    shop = Shop()
    shop.fault(fault="partial_206")
    reply = shop.create()
    assert reply.status == 206
    assert reply.headers["x-content-missing"] == "location,geolocation,seller_address"
    assert "seller_address" not in reply.body
    assert created(shop) == 1


def test_200_with_another_sku() -> None:
    shop = Shop()
    shop.fault(fault="mismatched_sku")
    reply = shop.create()
    assert reply.status == 200
    assert reply.body["attributes"][0]["value_name"] == "OTHERSKU00"
    assert shop.item(reply.body["id"])["attributes"][0]["value_name"] == "B07N4M94X4"


def test_created_late_appears_after_its_time_without_an_answer() -> None:
    shop = Shop()
    shop.fault(fault="created_late", seconds=10, times=1)
    assert shop.create().answer.delivery == "silence"
    shop.clock.pass_seconds(9)
    assert created(shop) == 0
    shop.clock.pass_seconds(1)
    assert created(shop) == 1
    shop.fault(fault="created_late", seconds=10, times=1, then="error")
    assert shop.create("B000000002").status == 504
    shop.fault(fault="created_late", seconds=10, times=1, then="reset")
    assert shop.create("B000000003").answer.delivery == "reset"


def test_created_twice_makes_a_duplicate() -> None:
    shop = Shop()
    shop.fault(fault="created_twice")
    assert shop.create().status == 201
    assert shop.call("GET", "/sandbox/counters").body["duplicates"] == 1


def test_a_price_change_is_ignored_with_a_warning() -> None:
    shop = Shop()
    item_id = shop.publish()
    shop.fault(fault="price_ignored")
    reply = shop.call("PUT", f"/items/{item_id}", {"price": 300_000})
    assert (reply.status, reply.body["price"]) == (200, 189_900)
    assert reply.body["warnings"][0]["code"] == "item.price.not_modifiable"


def test_index_lag_picture_delay_and_custom_field_of_single_items() -> None:
    shop = Shop()
    shop.fault(fault="index_lag", sku="B000000001", seconds=100)
    shop.fault(fault="picture_delay", sku="B000000002", seconds=200)
    shop.fault(fault="custom_field_lost", sku="B000000003")
    first, second, third = (shop.publish(f"B00000000{n}") for n in (1, 2, 3))
    assert shop.search("seller_sku=B000000001")["results"] == []
    shop.clock.pass_seconds(99)
    assert shop.search("seller_sku=B000000001")["results"] == [first]
    assert shop.item(second)["status"] == "paused"
    assert shop.item(third)["seller_custom_field"] is None
    assert shop.search("sku=B000000003")["results"] == []


def test_searches_that_find_nothing_and_feeds_that_repeat_themselves() -> None:
    shop = Shop()
    item_id = shop.publish()
    shop.fault(fault="search_empty", times=1)
    assert shop.search("seller_sku=B07N4M94X4")["paging"]["total"] == 0
    assert shop.search("seller_sku=B07N4M94X4")["results"] == [item_id]
    shop.fault(fault="notices_repeated")
    messages = shop.call("GET", "/missed_feeds?app_id=9").body["messages"]
    assert len(messages) == 4
    assert len({message["_id"] for message in messages}) == 2


def test_oauth_faults() -> None:
    shop = Shop()
    shop.fault(fault="invalid_grant", times=1)
    shop.fault(fault="oauth_error", value="unauthorized_application", times=1)
    shop.fault(fault="reset_after", operation="oauth_token", times=1)
    assert shop.refresh("TG-a-7").body["error"] == "invalid_grant"
    assert shop.refresh("TG-a-7").body["error"] == "unauthorized_application"
    assert shop.refresh("TG-a-7").answer.delivery == "reset"
    assert shop.refresh("TG-a-7").body["error"] == "invalid_grant", "the lost answer had used the token up"


def test_a_conflict_and_a_string_cause_by_their_default_operation() -> None:
    shop = Shop()
    item_id = shop.publish()
    shop.fault(fault="conflict_409", times=1)
    shop.fault(fault="cause_as_string", times=1)
    assert shop.item(item_id)["status"] == "active"
    conflict = shop.call("PUT", f"/items/{item_id}", {"price": 5000})
    assert (conflict.status, conflict.body["message"]) == (409, "item optimistic locking error: conflict")
    assert shop.call("PUT", f"/items/{item_id}", {"price": 5000}).status == 200
    refused = shop.call("POST", f"/items/{item_id}/description", {"plain_text": "x"})
    assert refused.body["cause"] == "item.description.type.invalid"


def test_an_outage_holds_for_its_seconds_and_one_account() -> None:
    shop = Shop()
    shop.fault(fault="account_outage", user_id=USER, seconds=10)
    assert shop.call("GET", "/users/me").status == 503
    assert shop.call("GET", "/users/me", token="APP_USR-x-7").status == 200
    shop.clock.pass_seconds(9)
    assert shop.create().status == 503
    shop.clock.pass_seconds(1)
    assert shop.create().status == 201


def test_a_token_revoked_in_mid_job_is_replaced_by_a_refresh() -> None:
    shop = Shop()
    shop.fault(fault="token_revoked", operation="item_create", nth=2)
    assert [shop.create(f"B00000000{n}").status for n in range(3)] == [201, 401, 401]
    pair = shop.refresh(f"TG-x-{USER}").body
    assert shop.call("GET", "/users/me", token=pair["access_token"]).status == 200


# Which requests are struck


def strikes(shop: Shop, calls: int) -> list[bool]:
    return [shop.create(f"B{n:09d}").status == 500 for n in range(calls)]


def test_nth_every_skip_and_times() -> None:
    for rule, expected in (
        ({"nth": 2}, [False, True, False, False, False, False]),
        ({"nth": [1, 4]}, [True, False, False, True, False, False]),
        ({"every": 2}, [False, True, False, True, False, True]),
        ({"skip": 4}, [False, False, False, False, True, True]),
        ({"times": 2}, [True, True, False, False, False, False]),
        ({"every": 2, "times": 1}, [False, True, False, False, False, False]),
    ):
        shop = Shop()
        shop.fault(fault="error_500", operation="item_create", **rule)
        assert strikes(shop, 6) == expected, rule


def test_counting_by_sku_strikes_each_first_attempt() -> None:
    shop = Shop()
    shop.fault(fault="reset_after", nth=1, per="sku")
    deliveries = [shop.create(sku).answer.delivery for sku in ("B000000001", "B000000002", "B000000001")]
    assert deliveries == ["reset", "reset", "normal"]
    statuses = shop.call("GET", "/sandbox/counters").body["statuses"]
    assert (statuses["item_create reset"], statuses["item_create 201"]) == (2, 1)


def test_a_probability_repeats_from_its_seed_whatever_the_order() -> None:
    def struck(order: list[int]) -> set[int]:
        shop = Shop()
        shop.fault(fault="error_500", operation="item_create", probability=0.3, seed=7)
        return {n for n in order if shop.create(f"B{n:09d}").status == 500}

    numbers = list(range(200))
    assert struck(numbers) == struck(numbers[::-1])
    assert 30 <= len(struck(numbers)) <= 90


def test_a_rule_looks_at_operation_method_path_sku_user_and_listing() -> None:
    shop = Shop()
    item_id = shop.publish("B000000001")
    for rule, struck in (
        ({"operation": "item_get"}, True),
        ({"operation": "item_update"}, False),
        ({"method": "get"}, True),
        ({"method": "PUT"}, False),
        ({"path": r"^/items/MCO\d+$"}, True),
        ({"path": "/users"}, False),
        ({"operation": "*", "sku": "B000000001"}, True),
        ({"operation": "*", "sku": "B000000002"}, False),
        ({"operation": "*", "user_id": USER}, True),
        ({"operation": "*", "user_id": 1}, False),
        ({"operation": "*", "listing_id": item_id}, True),
        ({"operation": "*", "listing_id": "MCO1"}, False),
    ):
        shop.fault(fault="error_500", **rule)
        assert (shop.call("GET", f"/items/{item_id}").status == 500) is struck, rule
        shop.call("DELETE", "/sandbox/faults")


def test_the_first_rule_that_strikes_decides_and_counts_remain() -> None:
    shop = Shop()
    first = shop.fault(fault="error_500", operation="item_create", nth=2).body
    shop.fault(fault="error_503", operation="item_create")
    assert [shop.create().status for _ in range(3)] == [503, 500, 503]
    shown = shop.call("GET", "/sandbox/faults").body
    assert [(rule["matched"], rule["fired"]) for rule in shown["rules"]] == [(3, 1), (2, 2)]
    assert shop.call("DELETE", f"/sandbox/faults/{first['id']}").body == {"removed": 1}
    assert shop.call("DELETE", f"/sandbox/faults/{first['id']}").status == 404
    assert shop.call("DELETE", "/sandbox/faults").body == {"removed": 1}
    assert shop.call("GET", "/sandbox/faults").body == {
        "rules": [],
        "fired_by_kind": {"error_503": 2, "error_500": 1},
    }
    shop.call("DELETE", "/sandbox/faults?reset=true")
    assert shop.call("GET", "/sandbox/faults").body["fired_by_kind"] == {}


def test_several_rules_at_once_and_the_list_of_kinds() -> None:
    shop = Shop()
    reply = shop.call("POST", "/sandbox/faults", [{"fault": "error_500"}, {"fault": "rate_limit"}])
    assert [rule["id"] for rule in reply.body] == [1, 2]
    kinds = shop.call("GET", "/sandbox/fault-kinds").body
    assert len(kinds) == len(KINDS) >= 40
    assert all(kind["description"] for kind in kinds)


def test_the_documentation_names_every_kind_and_every_operators_call() -> None:
    text = (Path(__file__).parents[2] / "docs" / "sandbox.md").read_text(encoding="utf-8")
    assert [name for name in KINDS if f"`{name}`" not in text] == []
    calls = [f"{method} {path}" for path, method in operators_calls()]
    assert len(calls) >= 15
    assert [call for call in calls if call not in text] == []


def operators_calls() -> list[tuple[str, str]]:
    """Path (``{}`` written as ``{id}``) and method of every call under /sandbox."""
    shop = Shop()
    found: list[tuple[str, str]] = []
    waiting = [("/sandbox", shop.sandbox.routes().literal["sandbox"])]
    while waiting:
        path, node = waiting.pop()
        found += [(path, method) for method in node.methods]
        waiting += [(f"{path}/{segment}", following) for segment, following in node.literal.items()]
        if node.any is not None:
            waiting.append((f"{path}/{{id}}", node.any))
    return found
