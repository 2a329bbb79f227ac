"""Where people are reached."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import Field

from cortex_plane.adapters.http.access import ThePlane, require
from cortex_plane.adapters.http.inputs import IdPath, Input, NamePath, Text
from cortex_plane.adapters.http.once import IdempotencyKey, created
from cortex_plane.core.access import Caller, Role
from cortex_plane.core.people import ADDRESS_LIMIT, ChannelType, LinkedChannel
from cortex_plane.operations.link_channel import link_channel
from cortex_plane.ports.clock import NewId

router = APIRouter(prefix="/users/{name}/channels", tags=["users"])

AdminOfAll = Annotated[Caller, require(Role.ADMIN, everywhere=True)]


class NewChannel(Input):
    channel_type: ChannelType = Field(examples=["email"])
    address: Text = Field(
        min_length=1,
        max_length=ADDRESS_LIMIT,
        description="What the service knows them by: a chat, a user, an address, or the id of a webhook.",
        examples=["ada@example.com"],
    )


@router.get("")
async def list_channels(_caller: AdminOfAll, plane: ThePlane, name: NamePath) -> list[LinkedChannel]:
    """The addresses at which a person is reached."""
    return list(await plane.people.channels(name))


@router.post("", status_code=201, response_model=LinkedChannel)
async def link(
    request: Request,
    caller: AdminOfAll,
    plane: ThePlane,
    name: NamePath,
    body: NewChannel,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Links an address to a person, so that requests reach them there."""

    async def work(ids: NewId) -> LinkedChannel:
        return await link_channel(await plane.store, ids, name, body.channel_type, body.address, actor=caller.name)

    return await created(request, caller, idempotency_key, LinkedChannel, work)


@router.delete("/{channel_id}", status_code=204)
async def unlink(caller: AdminOfAll, plane: ThePlane, name: NamePath, channel_id: IdPath) -> None:
    """Unlinks an address from a person."""
    await plane.people.unlink(name, channel_id, actor=caller.name)
