"""Runs the command ``listings`` inside a test: operators' commands against grpcio-testing's channel, whose other end
the test plays."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc_testing
import pytest
from google.protobuf.message import Message

from core.errors import ApiError
from listing_publication.v1 import account_pb2, admin_pb2, common_pb2, jobs_pb2, promotion_pb2, publishing_pb2
from listings import channel as channel_module
from listings.main import main
from tests.support.scripted_core import status_details

KEY = "svc_test_only-for-this-test"
SECONDS = 20.0
SERVICES = {
    name: descriptor
    for module in (account_pb2, admin_pb2, jobs_pb2, promotion_pb2, publishing_pb2)
    for name, descriptor in module.DESCRIPTOR.services_by_name.items()
}


@dataclass
class Taken:
    """A call that reached the test."""

    metadata: dict[str, Any]
    request: Any
    rpc: Any

    def answer(self, response: Message) -> None:
        """End the call well."""
        self.rpc.terminate(response, (), grpc.StatusCode.OK, "")

    def refuse(self, error: ApiError) -> None:
        """End a unary call with a refusal, as the core server tells it."""
        trailing = (("grpc-status-details-bin", status_details(error)),)
        self.rpc.terminate(None, trailing, grpc.StatusCode[error.kind.grpc_status], error.detail)

    def send(self, messages: Iterable[Message]) -> None:
        """Messages of a stream."""
        for message in messages:
            self.rpc.send_response(message)

    def end(self, code: grpc.StatusCode = grpc.StatusCode.OK) -> None:
        """End a stream."""
        self._until_read()
        self.rpc.terminate((), code, "text from inside")

    def end_refused(self, error: ApiError) -> None:
        """End a stream with a refusal."""
        self._until_read()
        trailing = (("grpc-status-details-bin", status_details(error)),)
        self.rpc.terminate(trailing, grpc.StatusCode[error.kind.grpc_status], error.detail)

    def _until_read(self) -> None:
        # The testing channel drops what was not read yet when a stream ends with an error; real ones do not.
        unread = self.rpc._rpc_state
        until = time.monotonic() + SECONDS
        with unread._condition:
            while unread._responses and time.monotonic() < until:
                unread._condition.wait(0.01)


@dataclass
class Ended:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


@dataclass
class CommandLine:
    """One command at a time, in a thread of its own when somebody has to answer it."""

    capsys: pytest.CaptureFixture[str]
    channel: Any = field(
        default_factory=lambda: grpc_testing.channel(list(SERVICES.values()), grpc_testing.strict_real_time())
    )
    targets: list[str] = field(default_factory=list)
    _thread: threading.Thread | None = None
    _code: int | None = None

    def run(self, *arguments: str) -> Ended:
        """A command that calls nobody."""
        return self.start(*arguments).end()

    def start(self, *arguments: str) -> CommandLine:
        """A command that the test will answer."""

        def command() -> None:
            self._code = main(list(arguments))

        self._code = None
        self._thread = threading.Thread(target=command, daemon=True)
        self._thread.start()
        return self

    def take(self, service: str, method: str) -> Taken:
        """The command's next call, which must be of this method."""
        descriptor = SERVICES[service].methods_by_name[method]
        take = self.channel.take_unary_stream if descriptor.server_streaming else self.channel.take_unary_unary
        found: list[Any] = []
        taking = threading.Thread(target=lambda: found.append(take(descriptor)), daemon=True)
        taking.start()
        taking.join(SECONDS)
        assert found, f"the command did not call {method}"
        metadata, request, rpc = found[0]
        return Taken(dict(metadata or ()), request, rpc)

    def end(self) -> Ended:
        """Wait for the command's end."""
        assert self._thread is not None
        self._thread.join(SECONDS)
        assert not self._thread.is_alive(), "the command did not end"
        assert self._code is not None, "the command ended with an exception"
        out, err = self.capsys.readouterr()
        return Ended(self._code, out, err)

    def ping(self, *, live: bool = False) -> None:
        """Answer the question for the key's environment."""
        environment = common_pb2.ENVIRONMENT_LIVE if live else common_pb2.ENVIRONMENT_TEST
        self.take("AccountService", "Ping").answer(
            account_pb2.PingResponse(
                seller_id=7, environment=environment, scopes=["products:read"], key_id="key_0123456789abcdefg"
            )
        )


def command_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Any) -> CommandLine:
    """A command line in an empty folder and a clean environment, with a key."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("LISTINGS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("LISTINGS_API_KEY", KEY)
    monkeypatch.setenv("COLUMNS", "200")
    made = CommandLine(capsys)

    def open_channel(_settings: object, target: str) -> Any:
        made.targets.append(target)
        return made.channel

    monkeypatch.setattr(channel_module, "open_channel", open_channel)
    return made
