"""The command line's own channel to the core server."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import grpc
import pytest

from core.settings import Settings
from listings.channel import open_channel
from listings.output import UsageError


@pytest.mark.parametrize("half", ["grpc_tls_client_certificate", "grpc_tls_client_key"])
def test_half_of_the_client_pair_is_refused_before_grpc_aborts_over_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, half: str
) -> None:
    credentials = mock.create_autospec(grpc.ssl_channel_credentials)
    monkeypatch.setattr(grpc, "ssl_channel_credentials", credentials)
    pem = tmp_path / "some.pem"
    pem.write_text("-----BEGIN CERTIFICATE-----\n")
    settings = Settings(_env_file=None, grpc_tls_server_ca=pem).model_copy(update={half: pem})

    with pytest.raises(UsageError, match="must be set together"):
        open_channel(settings, "localhost:1")

    credentials.assert_not_called()
