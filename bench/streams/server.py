"""The API in a process of its own: `python -m bench.streams.server URL PORT`."""

from __future__ import annotations

import logging
import sys

import structlog
from uvicorn import Config, Server

from cortex_plane import Plane
from cortex_plane.dashboard.app import create_dashboard
from cortex_plane.event_loop import run


async def serve(url: str, port: int) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    await Server(Config(create_dashboard(Plane(url)), port=port, log_config=None, access_log=False)).serve()


if __name__ == "__main__":
    run(serve(sys.argv[1], int(sys.argv[2])))
