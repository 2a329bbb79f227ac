"""Seals that are kept elsewhere show a cut-off end, which the database by itself cannot."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cortex_plane.audit.cli import _exported
from cortex_plane.audit.export import AwsCredentials, s3_url, seal_target, signed
from cortex_plane.audit.model import FindingKind, SealFinding
from cortex_plane.audit.sealer import REST_AFTER_TROUBLE_SECONDS, SealExporter
from cortex_plane.audit.service import export_seals, verify_audit
from cortex_plane.errors import InvalidInput, Unavailable
from tests.contract.support import Raw, Scene
from tests.contract.test_verify_audit import corrupt, log, names

__all__ = ["log"]

pytestmark = pytest.mark.anyio


async def test_a_cut_off_end_shows_against_exported_seals(log: Scene, raw: Raw, tmp_path: Path) -> None:
    file = tmp_path / "seals.jsonl"
    target = f"file:{file}"
    assert await export_seals(log.store, target, seal_target(target)) == 3
    assert await export_seals(log.store, target, seal_target(target)) == 0
    assert (await verify_audit(log.store, _exported(file))).sound

    await corrupt(raw, "delete from cortex.audit_seal where number = 3", "delete from cortex.audit_log where seq > 7")

    assert (await verify_audit(log.store)).sound
    assert (await verify_audit(log.store, _exported(file))).findings == [SealFinding(FindingKind.SEAL_MISSING, 3, last_seal=3)]


async def test_seals_that_were_made_anew_show_against_exported_ones(log: Scene, raw: Raw, tmp_path: Path) -> None:
    file = tmp_path / "seals.txt"
    true = await names(log)
    file.write_text("\n".join([true[0], f"2:{'0' * 64}", true[2]]))

    assert (await verify_audit(log.store, _exported(file))).findings == [SealFinding(FindingKind.SEAL_REPLACED, 2)]


async def test_a_file_of_seals_holds_a_line_for_each_and_nothing_of_the_entries(log: Scene, tmp_path: Path) -> None:
    file = tmp_path / "seals.jsonl"
    await export_seals(log.store, f"file:{file}", seal_target(f"file:{file}"))

    lines = [json.loads(line) for line in file.read_text().splitlines()]

    assert [line["seal"] for line in lines] == await names(log)
    assert not {"actor", "action", "object_id", "details"} & set(lines[0])
    assert file.stat().st_mode & 0o077 == 0


_receiver_saw: list[dict[str, str]] = []
"""The headers of each request to it, in lower case."""


@asynccontextmanager
async def _receiver(status: str = "200 OK") -> AsyncIterator[tuple[int, list[tuple[str, str, str]]]]:
    """Its port, and what came: method and path, authorization, body."""
    came: list[tuple[str, str, str]] = []
    _receiver_saw.clear()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in head[1:] if ": " in line)
        _receiver_saw.append(fields)
        body = (await reader.readexactly(int(fields["content-length"]))).decode()
        came.append((head[0].rsplit(" ", 1)[0], fields.get("authorization", ""), body))
        writer.write(f"HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], came


@pytest.mark.parametrize(
    ("form", "first"),
    [("http://127.0.0.1:{}/hook", "POST /hook"), ("s3+http://127.0.0.1:{}/audit/", "PUT /audit/000000000001.json")],
    ids=["webhook", "objects"],
)
async def test_seals_are_posted_or_put_one_by_one(log: Scene, form: str, first: str) -> None:
    async with _receiver() as (port, came):
        target = form.format(port)
        assert await export_seals(log.store, target, seal_target(target, "Bearer abc")) == 3

    assert came[0][:2] == (first, "bearer abc")
    assert [json.loads(body)["seal"] for _, _, body in came] == await names(log)


AWS = {
    "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "AWS_REGION": "us-east-1",
}


@pytest.mark.parametrize(
    ("method", "path", "headers", "body", "signature"),
    [
        ("GET", "test.txt", {"range": "bytes=0-9"}, b"", "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"),
        (
            "PUT",
            "test$file.text",
            {"Date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY"},
            b"Welcome to Amazon S3.",
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        ),
    ],
)
def test_requests_are_signed_as_the_documentation_of_s3_shows(
    method: str, path: str, headers: dict[str, str], body: bytes, signature: str
) -> None:
    """Its examples of the Authorization header. S3 wants `x-amz-content-sha256` and `x-amz-date`, which `signed` adds."""
    credentials = AwsCredentials.from_environment(AWS)
    assert credentials is not None

    url = s3_url(f"https://examplebucket.s3.amazonaws.com:443/{path}")
    sent = signed(method, url, headers, body, credentials, datetime(2013, 5, 24, tzinfo=UTC))

    assert sent["authorization"].endswith(f"Signature={signature}")
    assert "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request" in sent["authorization"]


async def test_objects_are_put_with_a_signature_that_covers_what_arrives(log: Scene) -> None:
    async with _receiver() as (port, came):
        target = f"s3+http://127.0.0.1:{port}/our bucket/"
        environment = {**AWS, "AWS_SESSION_TOKEN": "a-token"}
        await export_seals(log.store, target, seal_target(target, environment=environment))

    first, authorization, body = came[0]
    method, path = first.split(" ", 1)
    assert path == "/our%20bucket/000000000001.json"
    sent = _receiver_saw[0]
    credentials = AwsCredentials.from_environment(environment)
    assert credentials is not None
    assert sent["x-amz-security-token"] == "a-token"
    at = datetime.strptime(sent["x-amz-date"], "%Y%m%dt%H%M%Sz").replace(tzinfo=UTC)
    again = signed(method, f"http://{sent['host']}{path}", {"content-type": "application/json"}, body.encode(), credentials, at)
    assert authorization == again["authorization"].lower()


@pytest.mark.parametrize("missing", sorted(AWS))
def test_half_of_the_aws_variables_are_refused(missing: str) -> None:
    given = {name: value for name, value in AWS.items() if name != missing}

    with pytest.raises(InvalidInput, match=missing):
        seal_target("s3+https://bucket.example.com/", environment=given)
    seal_target("s3+https://bucket.example.com/", "Bearer mine", given)  # Nothing is signed then.


def test_a_presigned_url_is_refused_with_what_to_do() -> None:
    with pytest.raises(InvalidInput, match="AWS_ACCESS_KEY_ID"):
        seal_target("s3+https://bucket.example.com/seals/?X-Amz-Signature=abc")


async def test_what_was_not_taken_is_sent_again(log: Scene) -> None:
    async with _receiver("503 Busy") as (port, _):
        target = f"http://127.0.0.1:{port}/hook"
        with pytest.raises(Unavailable, match="503"):
            await export_seals(log.store, target, seal_target(target))
        assert await SealExporter(log.store, target, seal_target(target)).once() == REST_AFTER_TROUBLE_SECONDS
    sent: list[int] = []

    async def take(seal: object) -> None:
        sent.append(seal.number)  # type: ignore[attr-defined]

    await export_seals(log.store, target, take)
    assert sent == [1, 2, 3]


@pytest.mark.parametrize("target", ["", "seals.jsonl", "file:", "ftp://example.com/"])
def test_a_wrong_target_is_refused(target: str) -> None:
    with pytest.raises(InvalidInput, match="file:PATH"):
        seal_target(target)


def test_a_file_without_seals_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text('{"no": "seal"}')
    with pytest.raises(InvalidInput, match="holds no exported seals"):
        _exported(tmp_path / "x")
