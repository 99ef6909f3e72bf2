"""The pieces around a call: the table of methods, statuses, page tokens, addresses."""

from __future__ import annotations

import random
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from core.domain.api_key import Scope
from core.errors import CATALOGUE, ERROR_DOMAIN, MAX_VIOLATIONS, ApiError, Violation, invalid
from core.use_cases.authorize import Access
from grpc_server.interceptors.observing import client_address
from grpc_server.methods import AS_NAMED, METHODS, OPERATOR, named_access
from grpc_server.page_token import page_token, read_page_token
from grpc_server.status import DEFAULT_METADATA_BYTES, MOST_METADATA_BYTES, status_code, status_details
from listing_publication.v1 import account_pb2, admin_pb2, jobs_pb2, promotion_pb2, publishing_pb2

PROTOS = (account_pb2, admin_pb2, jobs_pb2, promotion_pb2, publishing_pb2)


def test_the_table_of_methods_is_complete() -> None:
    there = {
        f"/{service.full_name}/{method.name}"
        for proto in PROTOS
        for service in proto.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }
    assert set(METHODS) == there
    assert len(there) == 26


def test_who_may_call_what() -> None:
    for name, demand in METHODS.items():
        if "AdminService" in name:
            assert demand is OPERATOR
        elif name.endswith("/CheckAccess"):
            assert demand is AS_NAMED
        else:
            assert isinstance(demand, Access)
            assert demand.live_only is name.endswith("/PromoteTestProducts")
            assert demand.writes is (demand.scope is Scope.PRODUCTS_WRITE)
            assert (demand.scope is None) is name.endswith("/Ping")


@pytest.mark.parametrize("method", ["", "Ping", "/listing_publication.v1.AdminService/GetSeller", "\0"])
def test_no_key_opens_these(method: str) -> None:
    with pytest.raises(ApiError) as caught:
        named_access(account_pb2.CheckAccessRequest(method=method))
    assert caught.value.code == "E_PRODUCT_INVALID_BODY"


def details(packed: bytes) -> tuple[status_pb2.Status, list[Any]]:
    status = status_pb2.Status.FromString(packed)
    found: list[Any] = []
    for detail in status.details:
        for kind in (error_details_pb2.ErrorInfo, error_details_pb2.BadRequest, error_details_pb2.RetryInfo):
            if detail.Is(kind.DESCRIPTOR):
                found.append(kind.FromString(detail.value))
    return status, found


@pytest.mark.parametrize("code", sorted(CATALOGUE))
def test_every_code_crosses(code: str) -> None:
    error = ApiError(code, "Words.")
    status, found = details(status_details(error))
    assert status_code(error).name == CATALOGUE[code].grpc_status
    assert grpc.StatusCode[CATALOGUE[code].grpc_status].value[0] == status.code
    assert status.message == "Words."
    assert (found[0].reason, found[0].domain) == (code, ERROR_DOMAIN)
    assert (len(found) == 2) is (CATALOGUE[code].http_status in (429, 503))


def test_places_are_cut_from_the_end_only_where_they_do_not_fit() -> None:
    rule = "each item needs either a category_id or auto_categorize: true"
    places = [Violation("E_PRODUCT_INVALID_BODY", rule, f"/items/{9000 + index}") for index in range(200)]
    error = invalid([*places[:50], Violation("E_PRODUCT_INVALID_BODY", rule, parameter="limit"), *places[51:]])
    full = details(status_details(error, MOST_METADATA_BYTES))[1][1].field_violations
    assert len(full) == MAX_VIOLATIONS
    assert (full[0].field, full[0].description, full[0].reason) == ("/items/9000", rule, "E_PRODUCT_INVALID_BODY")
    assert full[50].field == "limit"
    packed = status_details(error)
    assert len(packed) <= DEFAULT_METADATA_BYTES
    short = details(packed)[1][1].field_violations
    assert len(short) > 40
    assert list(short) == list(full)[: len(short)]


def test_page_tokens_hold_their_place_and_no_other_list() -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    request = jobs_pb2.ListJobsRequest(status="failed", page_size=7, skip=3)
    for place in ((0,), (50,), (2**49,)):
        token = page_token(request, 7, place)
        following = jobs_pb2.ListJobsRequest(status="failed", page_size=9, page_token=token)
        assert read_page_token(following, 7, int) == place
        spot = chance.randrange(len(token))
        damaged = [token[:-1], token + "A", token + "=", token[:spot] + "%" + token[spot + 1 :], token.swapcase(), "é"]
        foreign: list[tuple[Any, int, tuple[type, ...]]] = [
            (following, 8, (int,)),
            (following, 7, (int, str)),
            (jobs_pb2.ListJobsRequest(page_token=token), 7, (int,)),
            (jobs_pb2.ListJobsRequest(status="queued", page_token=token), 7, (int,)),
            (jobs_pb2.GetJobRequest(status="failed", page_token=token), 7, (int,)),
            *((jobs_pb2.ListJobsRequest(status="failed", page_token=wrong), 7, (int,)) for wrong in damaged),
        ]
        for other, seller_id, kinds in foreign:
            with pytest.raises(ApiError) as caught:
                read_page_token(other, seller_id, *kinds)
            assert [violation.parameter for violation in caught.value.violations] == ["page_token"]


@pytest.mark.parametrize("place", [(-1,), (2**60,), ("A\0",), ("x" * 65,), (True,), ([],)])
def test_a_forged_page_token_brings_nothing_odd_to_the_database(place: tuple[Any, ...]) -> None:
    request = jobs_pb2.ListJobsRequest()
    request.page_token = page_token(request, 7, place)
    for kind in (int, str):
        with pytest.raises(ApiError, match="page_token"):
            read_page_token(request, 7, kind)


@pytest.mark.parametrize(
    ("peer", "claimed", "address"),
    [
        ("ipv4:203.0.113.9:4711", None, "203.0.113.9"),
        ("ipv4:203.0.113.9:4711", "192.0.2.1", "203.0.113.9"),
        ("ipv4:198.51.100.7:4711", "192.0.2.1", "192.0.2.1"),
        ("ipv4:127.0.0.1:4711", "192.0.2.1", "192.0.2.1"),
        ("ipv4:127.0.0.1:4711", None, "127.0.0.1"),
        ("ipv4:127.0.0.1:4711", "not an address", "127.0.0.1"),
        ("ipv4:127.0.0.1:4711", b"192.0.2.1", "127.0.0.1"),
        ("ipv6:%5B::1%5D:4711", "2001:db8::1", "2001:db8::1"),
        ("ipv6:%5B2001:db8::2%5D:4711", "192.0.2.1", "2001:db8::2"),
        ("unix:", "192.0.2.1", "192.0.2.1"),
        ("unix:", None, "local"),
    ],
)
def test_whose_address_counts(peer: str, claimed: Any, address: str) -> None:
    assert client_address(peer, claimed, frozenset({"198.51.100.7"})) == address
