"""Targets of exported seals: a file, a webhook, or an object store with AWS signatures.

Signs a request as S3 and its relatives want it: AWS Signature Version 4, over the whole body, without a query.

canonical request ──▶ string to sign ──▶ key derived from secret, day, region, service ──▶ the header Authorization
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from hmac import digest
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from cortex_plane.audit.service import SendSeal, document_of
from cortex_plane.clock import utc_now
from cortex_plane.errors import InvalidInput, Unavailable
from cortex_plane.http_client import HttpResponse, HttpxClient
from cortex_plane.json import dumped

if TYPE_CHECKING:
    from cortex_plane.audit.model import Seal

STANDARD_PORTS = {"https": 443, "http": 80}
ALGORITHM, SERVICE, END = "AWS4-HMAC-SHA256", "s3", "aws4_request"


@dataclass(frozen=True, slots=True)
class AwsCredentials:
    key_id: str
    secret: str = field(repr=False)
    region: str
    session_token: str = field(default="", repr=False)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> AwsCredentials | None:
        """By the variables that all programs of AWS know. None: there are none. Raises InvalidInput when some are missing."""
        key_id, secret = environment.get("AWS_ACCESS_KEY_ID", ""), environment.get("AWS_SECRET_ACCESS_KEY", "")
        if not key_id and not secret:
            return None
        region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or ""
        values = {"AWS_ACCESS_KEY_ID": key_id, "AWS_SECRET_ACCESS_KEY": secret, "AWS_REGION": region}
        if missing := [name for name, value in values.items() if not value]:
            raise InvalidInput(f"To sign requests to S3, set {', '.join(missing)} too.", field="seal_export")
        return cls(key_id, secret, region, environment.get("AWS_SESSION_TOKEN", ""))


def s3_url(url: str) -> str:
    """With host and path written as they are sent and signed: other ways to write the same would not match the signature."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = "" if parts.port in (None, STANDARD_PORTS[parts.scheme]) else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}{quote(unquote(parts.path), safe='/-_.~')}"


def signed(
    method: str, url: str, headers: Mapping[str, str], body: bytes, credentials: AwsCredentials, at: datetime
) -> dict[str, str]:
    """The headers to send, with those that sign them. `url` is one of `s3_url`."""
    parts = urlsplit(url)
    moment, body_hash = at.strftime("%Y%m%dT%H%M%SZ"), sha256(body).hexdigest()
    sent = {**headers, "x-amz-content-sha256": body_hash, "x-amz-date": moment}
    if credentials.session_token:
        sent["x-amz-security-token"] = credentials.session_token
    told = {name.lower(): " ".join(value.split()) for name, value in {**sent, "host": parts.netloc}.items()}
    names = ";".join(sorted(told))
    lines = [method, parts.path or "/", "", *(f"{name}:{told[name]}" for name in sorted(told)), "", names, body_hash]
    scope = f"{moment[:8]}/{credentials.region}/{SERVICE}/{END}"
    text = "\n".join([ALGORITHM, moment, scope, sha256("\n".join(lines).encode()).hexdigest()])
    key = f"AWS4{credentials.secret}".encode()
    for part in scope.split("/"):
        key = digest(key, part.encode(), "sha256")
    signature = digest(key, text.encode(), "sha256").hex()
    sent["authorization"] = f"{ALGORITHM} Credential={credentials.key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
    return sent


# -- seal targets ------------------------------------------------------------------------------
# Where seals are sent: `file:seals.jsonl`, `https://example.com/hook` (POST), `s3+https://bucket.example.com/audit/` (PUT).
#
# What is put is signed as AWS does when AWS_ACCESS_KEY_ID is set and no other authorization is.


FILE, OBJECTS = "file:", "s3+"
TIMEOUT_SECONDS = 10.0


def seal_target(target: str, authorization: str = "", environment: Mapping[str, str] = os.environ) -> SendSeal:
    """`authorization` is sent as the header of that name. Raises InvalidInput."""
    if target.startswith(FILE) and target != FILE:
        return _to_file(Path(target.removeprefix(FILE).removeprefix("//")))
    if target.startswith((OBJECTS + "https://", OBJECTS + "http://")):
        return _to_objects(target.removeprefix(OBJECTS), authorization, environment)
    if target.startswith(("https://", "http://")):
        return _to_webhook(target, authorization)
    raise InvalidInput(
        "Seals are exported to file:PATH, to https://… (each is posted), or to s3+https://…/ (each is put as NUMBER.json).",
        field="seal_export",
    )


def _to_file(path: Path) -> SendSeal:
    def append(line: bytes) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(descriptor, line)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    async def send(seal: Seal) -> None:
        try:
            await asyncio.to_thread(append, dumped(document_of(seal)) + b"\n")
        except OSError as error:
            raise Unavailable(f"The seal cannot be written to {path}: {error.strerror or error}.") from None

    return send


def _to_webhook(url: str, authorization: str) -> SendSeal:
    async def send(seal: Seal) -> None:
        await _ask(HttpxClient().post, url, _headers(authorization), seal)

    return send


def _to_objects(url: str, authorization: str, environment: Mapping[str, str]) -> SendSeal:
    if "?" in url or "#" in url:
        raise InvalidInput(
            "A target of objects has no query: each seal is an object of its own, and a presigned URL is for one object alone. "
            "Set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION to have requests signed.",
            field="seal_export",
        )
    credentials = None if authorization else AwsCredentials.from_environment(environment)

    async def send(seal: Seal) -> None:
        where, headers = s3_url(f"{url.rstrip('/')}/{seal.number:012}.json"), _headers(authorization)
        if credentials is not None:
            headers = signed("PUT", where, headers, _body(seal), credentials, utc_now())
        await _ask(HttpxClient().put, where, headers, seal)

    return send


def _headers(authorization: str) -> dict[str, str]:
    return {"content-type": "application/json", **({"authorization": authorization} if authorization else {})}


def _body(seal: Seal) -> bytes:
    return dumped(document_of(seal))


async def _ask(ask: Callable[..., Awaitable[HttpResponse]], url: str, headers: Mapping[str, str], seal: Seal) -> None:
    answer = await ask(
        url, headers=headers, body=_body(seal), timeout_seconds=TIMEOUT_SECONDS, answer_limit_bytes=1_000, allow_private=True
    )
    if not 200 <= answer.status < 300:
        raise Unavailable(f"The target of seals answered {answer.status} to seal {seal.number}.")
