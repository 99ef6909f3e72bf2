"""Who may call: key, scope, rate, live key; or the operator token."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

from structlog.contextvars import bind_contextvars

from core.domain import api_key
from core.errors import ApiError
from core.use_cases.authorize import Authorizer
from grpc_server.call import Behaviour, Call, current_call
from grpc_server.methods import AccessOf
from grpc_server.unreadable import refuse_unreadable

KEY = "x-api-key"
OPERATOR_TOKEN = "x-operator-token"  # noqa: S105 - the entry's name


def admitting_keys(behaviour: Behaviour, authorizer: Authorizer, access_of: AccessOf) -> Behaviour:
    """The behaviour, for callers whose API key is let in."""

    async def run(request: Any, context: Any) -> Any:
        call = current_call()
        secret = _one(call, KEY)
        principal = await authorizer.authenticate(secret, call.address)
        call.principal = principal
        call.key_digest = api_key.digest(secret or "")
        await authorizer.admit(principal, access_of(request), call.note_rate)
        refuse_unreadable(request)
        bind_contextvars(key_id=principal.key_id)
        await call.send_initial(context)
        return await behaviour(request, context)

    return run


def admitting_operators(behaviour: Behaviour, token: str | None) -> Behaviour:
    """The behaviour, for callers with the operator token; with no token configured for nobody."""
    expected = hashlib.sha256(token.encode()).digest() if token else None

    async def run(request: Any, context: Any) -> Any:
        call = current_call()
        sent = _one(call, OPERATOR_TOKEN) or ""
        # Digests have one length, so the comparison tells nothing about the token's.
        if expected is None or not hmac.compare_digest(hashlib.sha256(sent.encode()).digest(), expected):
            raise ApiError("E_ADMIN_FORBIDDEN", "The operator token is missing or wrong.")
        refuse_unreadable(request, "E_ADMIN_INVALID")
        await call.send_initial(context)
        return await behaviour(request, context)

    return run


def refusing_all(method: str) -> Behaviour:
    """What a method does that the table of methods has forgotten."""

    async def run(request: Any, context: Any) -> Any:
        raise ApiError("E_AUTH_FORBIDDEN_SCOPE", f"{method} is open to nobody.")

    return run


def _one(call: Call, name: str) -> str | None:
    """The entry's value.

    Raises:
        ApiError: it was sent more than once, so that a proxy and we could understand different things.
    """
    if name in call.repeated:
        code = "E_AUTH_INVALID_KEY" if name == KEY else "E_ADMIN_FORBIDDEN"
        raise ApiError(code, f"{name} must be sent exactly once.")
    value = call.metadata.get(name)
    return value if isinstance(value, str) else None
