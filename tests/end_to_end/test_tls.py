"""TLS and mutual TLS between real processes, with certificates made by the commands of docs/operating.md."""

from __future__ import annotations

import datetime
import ipaddress
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.support.serve import Command, Installation, Service, until
from tests.support.service import environment_for

OPERATING = Path(__file__).parents[2] / "docs" / "operating.md"


def make_certificates(folder: Path) -> Path:
    """authority.pem, core.pem, core.key, client.pem and client.key of a new authority in this folder."""
    folder.mkdir()
    authority = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"authority of {folder.name}")])
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    write(folder, "authority", _signed(issuer, issuer, authority, authority, []), authority)
    for name, alternatives in (("core", names), ("client", [])):
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        write(folder, name, _signed(subject, issuer, key, authority, alternatives), key)
    return folder


def _signed(subject: x509.Name, issuer: x509.Name, key: Any, authority: Any, names: list[Any]) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=subject == issuer, path_length=None), critical=True)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(authority, hashes.SHA256())


def write(folder: Path, name: str, certificate: x509.Certificate, key: Any) -> None:
    """NAME.pem and NAME.key."""
    (folder / f"{name}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    private = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    (folder / f"{name}.key").write_bytes(private)


def server_side(folder: Path, *, mutual: bool) -> dict[str, str]:
    """The core server's settings."""
    chosen = {"grpc_tls_certificate": str(folder / "core.pem"), "grpc_tls_key": str(folder / "core.key")}
    return chosen | ({"grpc_tls_client_ca": str(folder / "authority.pem")} if mutual else {})


def client_side(folder: Path, *, mutual: bool) -> dict[str, str]:
    """The settings of gateway and command line."""
    pair = {
        "grpc_tls_client_certificate": str(folder / "client.pem"),
        "grpc_tls_client_key": str(folder / "client.key"),
    }
    return {"grpc_tls_server_ca": str(folder / "authority.pem")} | (pair if mutual else {})


@pytest.fixture
def installation(tmp_path: Path, own_database_url: str) -> Iterator[Installation]:
    """Single processes on a database of the test."""
    environment = environment_for(own_database_url)
    made = Installation(
        tmp_path, **{name.removeprefix("LISTINGS_").lower(): value for name, value in environment.items()}
    )
    yield made
    made.clean_up()


def new_key(installation: Installation) -> Path:
    """A file with a key of a new seller."""
    assert installation.run("seller", "add", "--name", "A", "--json")[0] == 0
    code, out, said = installation.run(
        *("key", "create", "--seller", "1", "--environment", "test", "--json", "--scope", "products:read")
    )
    assert code == 0, said
    path = installation.folder / "key"
    path.write_text(out.partition('"secret": "')[2].partition('"')[0])
    return path


def gateway(installation: Installation, **settings: str) -> tuple[Command, Service]:
    """A running gateway."""
    command = installation.start("gateway", **settings)
    return command, Service(installation, command, command.until_ready())


def check(installation: Installation, ours: Path, theirs: Path) -> None:
    """Mutual TLS with certificates of one authority, and refusals for those of another."""
    key_file = new_key(installation)
    key = key_file.read_text()
    core = installation.start("grpc", **server_side(ours, mutual=True))
    target = core.until_ready()

    def ping(**settings: str) -> tuple[int, str, str]:
        return installation.run("ping", "--key-file", str(key_file), grpc_target=target, **settings)

    _, service = gateway(installation, grpc_target=target, **client_side(ours, mutual=True))
    assert until(lambda: service.call("GET", "/ping", key), lambda answer: answer.status == 200).body["status"] == "ok"
    code, out, said = ping(**client_side(ours, mutual=True))
    assert code == 0, said
    assert "key_" in out

    # Who trusts another authority, shows no certificate, shows a stranger's, or speaks no TLS at all.
    strange = client_side(ours, mutual=True) | {
        "grpc_tls_client_certificate": str(theirs / "client.pem"),
        "grpc_tls_client_key": str(theirs / "client.key"),
    }
    for settings in (client_side(theirs, mutual=True), client_side(ours, mutual=False), strange, {}):
        code, out, said = ping(**settings)
        assert (code, out) == (1, "")
        assert "cannot be reached" in said
        assert key not in said
    code, _, said = ping(**client_side(theirs, mutual=True))
    assert "not trusted" in said

    _, lost = gateway(installation, grpc_target=target, **client_side(theirs, mutual=True))
    answer = lost.call("GET", "/ping", key)
    assert (answer.status, answer.body["code"]) == (503, "E_INTERNAL")


def test_gateway_and_command_line_reach_the_core_server_over_mutual_tls(
    installation: Installation, tmp_path: Path
) -> None:
    check(installation, make_certificates(tmp_path / "ours"), make_certificates(tmp_path / "theirs"))


def test_tls_without_client_certificates(installation: Installation, tmp_path: Path) -> None:
    ours = make_certificates(tmp_path / "ours")
    key_file = new_key(installation)
    core = installation.start("grpc", **server_side(ours, mutual=False))
    target = core.until_ready()
    settings = client_side(ours, mutual=False) | {"grpc_target": target}
    code, _, said = installation.run("ping", "--key-file", str(key_file), **settings)
    assert code == 0, said
    assert "tls=True" in core.said()


def test_the_commands_of_the_page_for_operators_make_what_is_needed(installation: Installation, tmp_path: Path) -> None:
    section = OPERATING.read_text(encoding="utf-8").partition("## TLS")[2].partition("\n## ")[0]
    (script,) = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    named = set(re.findall(r"LISTINGS_GRPC_TLS_\w+=(\w+\.\w+)", section))
    assert named == {"core.pem", "core.key", "authority.pem", "client.pem", "client.key"}
    if shutil.which("openssl") is None:
        # The words are checked above; without the program there is nothing to run them with.
        return
    folders = [tmp_path / "ours", tmp_path / "theirs"]
    for folder in folders:
        folder.mkdir()
        subprocess.run(["sh", "-eu", "-c", script], cwd=folder, check=True, capture_output=True)
        assert named <= {path.name for path in folder.iterdir()}
    check(installation, *folders)
