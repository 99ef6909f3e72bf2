"""Marketplace users and their OAuth tokens."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from sandbox.items import Item

USER_PRODUCT_TAG = "user_product_seller"

_ACCESS_TOKEN = re.compile(r"APP_USR-[A-Za-z0-9_.-]*-([0-9]{1,18})", re.ASCII)
_GRANT = re.compile(r"TG-[A-Za-z0-9_.-]*-([0-9]{1,18})", re.ASCII)
_KNOWN_TOKENS_KEPT = 100_000
_NOTICES_KEPT = 10_000


class Notice(NamedTuple):
    """One change of an item, as ``/missed_feeds`` and the webhook tell of it. sent: seconds since the epoch."""

    number: int
    item_id: str
    user_id: int
    sent: float


@dataclass(slots=True)
class User:
    """One marketplace user; comes into being when its id is first seen.

    adopts_tokens: whether access tokens that were not issued here are taken for this user. A revocation
        of the whole user turns it off, because a made-up token never seen before would otherwise pass.
    grant_revoked: whether the application lost the user's permission; every token is refused then.
    lost_me1: the account always carries warning 4053, in ``/items/validate`` too.
    returns_custom_field: whether answers carry ``seller_custom_field`` (the real platform may drop it).
    """

    id: int
    tags: list[str]
    site_id: str = "MCO"
    list_allow: bool = True
    list_codes: list[str] = field(default_factory=list)
    adopts_tokens: bool = True
    grant_revoked: bool = False
    lost_me1: bool = False
    returns_custom_field: bool = True
    items: list[Item] = field(default_factory=list)
    by_sku: dict[str, list[Item]] = field(default_factory=dict)
    by_custom_field: dict[str, list[Item]] = field(default_factory=dict)
    notices: deque[Notice] = field(default_factory=lambda: deque(maxlen=_NOTICES_KEPT))

    @property
    def user_product_model(self) -> bool:
        """Whether listings are created with family_name instead of title (reference 3.3)."""
        return USER_PRODUCT_TAG in self.tags

    def settings(self) -> dict[str, Any]:
        """What an operator can change, as recorded in the effects log."""
        return {
            "tags": self.tags,
            "site_id": self.site_id,
            "list_allow": self.list_allow,
            "list_codes": self.list_codes,
            "adopts_tokens": self.adopts_tokens,
            "grant_revoked": self.grant_revoked,
            "lost_me1": self.lost_me1,
            "returns_custom_field": self.returns_custom_field,
        }

    def profile(self) -> dict[str, Any]:
        """The body of ``GET /users/me`` for the user's own token."""
        status = "active" if self.list_allow else "guest"
        return {
            "id": self.id,
            "nickname": f"SANDBOX{self.id}",
            "registration_date": "2020-01-01T00:00:00.000-04:00",
            "country_id": self.site_id[1:] if self.site_id != "CBT" else "CO",
            "site_id": self.site_id,
            "user_type": "normal",
            "tags": self.tags,
            "permalink": f"http://perfil.mercadolibre.com.co/SANDBOX{self.id}",
            "status": {
                "site_status": status,
                "list": {
                    "allow": self.list_allow,
                    "codes": self.list_codes,
                    "immediate_payment": {"reasons": [], "required": False},
                },
                "sell": {"allow": self.list_allow, "codes": self.list_codes},
                "billing": {"allow": True, "codes": []},
                "immediate_payment": False,
                "mercadoenvios": "accepted",
                "required_action": None,
            },
        }


@dataclass(slots=True)
class AccessGrant:
    """What an accepted access token stands for. expires_at None: never by the clock (not issued here)."""

    user_id: int
    expires_at: float | None


class Tokens:
    """Access and refresh tokens. Issued ones are kept as SHA-256 only, here and in the effects log."""

    def __init__(self) -> None:
        self._known: dict[str, AccessGrant] = {}
        self._issued_access: dict[str, AccessGrant] = {}
        self._refused: dict[str, str] = {}
        self._issued_refresh: dict[str, tuple[int, str]] = {}
        self._used: set[str] = set()

    def access(self, token: str, now: float) -> AccessGrant | str:
        """The grant of an access token, or why it is refused: invalid, revoked or expired."""
        grant = self._known.get(token)
        if grant is None:
            digest = digest_of(token)
            if digest in self._refused:
                return self._refused[digest]
            grant = self._issued_access.get(digest)
            if grant is None:
                match = _ACCESS_TOKEN.fullmatch(token)
                if match is None:
                    return "invalid"
                grant = AccessGrant(int(match.group(1)), None)
            if len(self._known) >= _KNOWN_TOKENS_KEPT:
                self._known.clear()
            self._known[token] = grant
        if grant.expires_at is not None and now >= grant.expires_at:
            return "expired"
        return grant

    def issued_here(self, token: str) -> bool:
        """Whether `token` is an access token that this sandbox issued."""
        return digest_of(token) in self._issued_access

    def refuse(self, digests: list[str], reason: str) -> None:
        """Refuses the access tokens with these digests from now on."""
        for digest in digests:
            self._refused[digest] = reason
        refused = set(digests)
        for token in [token for token in self._known if digest_of(token) in refused]:
            del self._known[token]

    def access_digests(self, user_id: int) -> list[str]:
        """Digests of every access token of the user seen or issued here."""
        digests = {digest for digest, grant in self._issued_access.items() if grant.user_id == user_id}
        digests.update(digest_of(token) for token, grant in self._known.items() if grant.user_id == user_id)
        return sorted(digests)

    def refresh_owner(self, token: str, client: str) -> int | None:
        """The user of a refresh token (or code) that is good for one use by `client`; else None."""
        digest = digest_of(token)
        if digest in self._used:
            return None
        issued = self._issued_refresh.get(digest)
        if issued is not None:
            return issued[0] if issued[1] == client else None
        match = _GRANT.fullmatch(token)
        return None if match is None else int(match.group(1))

    def install(self, record: dict[str, Any]) -> None:
        """Applies a token_rotated record, new or read back from the effects log."""
        if record["used"] is not None:
            self._used.add(record["used"])
            self._issued_refresh.pop(record["used"], None)
        user_id = record["user_id"]
        self._issued_access[record["access"]] = AccessGrant(user_id, record["expires_at"])
        self._issued_refresh[record["refresh"]] = (user_id, record["client"])
        self.refuse(record["refused"], "rotated")


def digest_of(token: str) -> str:
    """The form in which a token is kept."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def new_access_token(client_id: str, user_id: int, now: float) -> str:
    """A fresh access token in the marketplace's form."""
    application = re.sub(r"[^A-Za-z0-9]", "", client_id) or "0"
    moment = datetime.fromtimestamp(now, UTC).strftime("%m%d%H")
    return f"APP_USR-{application}-{moment}-{secrets.token_hex(16)}-{user_id}"


def new_refresh_token(user_id: int) -> str:
    """A fresh refresh token in the marketplace's form."""
    return f"TG-{secrets.token_hex(12)}-{user_id}"
