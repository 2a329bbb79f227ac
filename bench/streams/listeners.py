"""Those who listen, in a process of their own: they open every stream, say so, and read until they are stopped.

python -m bench.streams.listeners PORT KEY ADDRESS...
"""

from __future__ import annotations

import asyncio
import sys

from cortex_plane.event_loop import run

READ_BYTES = 65_536

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
"""Both are kept: who lets go of the second closes the connection."""


async def listen(port: int, key: str, addresses: list[str]) -> None:
    streams = await asyncio.gather(*(_open(port, key, address) for address in addresses))
    print("open", flush=True)
    await asyncio.gather(*(_read(address, stream) for address, stream in zip(addresses, streams, strict=True)))


async def _open(port: int, key: str, address: str) -> Stream:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {address} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\r\n".encode())
    status = await reader.readline()
    if b" 200 " not in status:
        raise SystemExit(f"{address} answers {status.decode()}")
    await reader.readuntil(b"retry:")
    return reader, writer


async def _read(address: str, stream: Stream) -> None:
    while await stream[0].read(READ_BYTES):
        pass
    raise SystemExit(f"The stream {address} has ended.")


if __name__ == "__main__":
    run(listen(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
