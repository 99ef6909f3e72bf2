"""``POST /oauth/token`` (reference section 1.2)."""

from __future__ import annotations

from urllib.parse import parse_qsl

import msgspec

from sandbox.accounts import digest_of, new_access_token, new_refresh_token
from sandbox.faults import oauth_error
from sandbox.market import Market
from sandbox.messages import Answer, Request, ok


def exchange(market: Market, request: Request) -> Answer:
    """Exchanges a code or refresh token, good for one use, for a new pair; recorded before it is answered."""
    form = _form(request)
    grant_field = {"refresh_token": "refresh_token", "authorization_code": "code"}.get(form.get("grant_type", ""))
    if grant_field is None:
        return oauth_error("unsupported_grant_type" if form.get("grant_type") else "invalid_request")
    needed = [grant_field, "client_id", "client_secret"]
    if grant_field == "code":
        needed.append("redirect_uri")
    if not all(form.get(name) for name in needed):
        return oauth_error("invalid_request")
    client, config = form["client_id"], market.config
    if (config.client_id is not None and client != config.client_id) or (
        config.client_secret is not None and form["client_secret"] != config.client_secret
    ):
        return oauth_error("invalid_client")
    user_id = market.tokens.refresh_owner(form[grant_field], client)
    if user_id is None or market.user(user_id).grant_revoked:
        return oauth_error("invalid_grant")
    return _issue(market, user_id, client, form[grant_field])


def _form(request: Request) -> dict[str, str]:
    """The form fields; empty for anything that is no form (parameters in the query do not work)."""
    if not request.content_type.startswith("application/x-www-form-urlencoded") or request.query:
        return {}
    try:
        return dict(parse_qsl(request.body.decode("ascii"), keep_blank_values=True, max_num_fields=20))
    except ValueError:
        return {}


def _issue(market: Market, user_id: int, client: str, used: str) -> Answer:
    now = market.clock()
    seconds = market.settings.access_token_seconds
    access, refresh = new_access_token(client, user_id, now), new_refresh_token(user_id)
    record = {
        "user_id": user_id,
        "client": client,
        "used": digest_of(used),
        "access": digest_of(access),
        "refresh": digest_of(refresh),
        "expires_at": now + seconds,
        "refused": market.tokens.access_digests(user_id) if market.settings.rotation_invalidates else [],
    }
    market.tokens.install(record)
    market.effects.append("token_rotated", now, user_id, msgspec.json.encode(record))
    return ok(
        {
            "access_token": access,
            "token_type": "bearer",
            "expires_in": seconds,
            "scope": "offline_access read write",
            "user_id": user_id,
            "refresh_token": refresh,
        }
    )
