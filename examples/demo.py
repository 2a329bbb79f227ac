"""The demo: a worker is killed with SIGKILL in the middle of a job; another one goes on from exactly there, and asks a person.

Run it with `make demo`. It needs no database server: everything happens in one SQLite file in a temporary folder.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from cortex_plane import Context, JobHandle, JobStatus, Plane, Run, Settings
from cortex_plane.approvals.decisions import told

console = Console(highlight=False)

SECTIONS = ["sales", "support", "hiring", "roadmap"]

plane = Plane(settings=Settings(database_url=os.environ.get("CORTEX_DATABASE_URL", "sqlite:///demo.db"), lease_seconds=2.0))


@plane.agent("weekly-report")
async def weekly_report(ctx: Context, week: int) -> str:
    """Writes a report, slowly enough to be killed in the middle of it. Each section is a step: once it is written, it stays.
    Nothing is sent before somebody has said so; until then no worker is kept busy."""
    texts = [await ctx.step(section, write, section) for section in SECTIONS]
    letters = sum(len(text) for text in texts)
    decision = await ctx.approval(f"Send the report of week {week}", details={"sections": SECTIONS, "letters": letters})
    sent = await ctx.tool("send", send, f"Report of week {week}", letters)
    return f"{sent}: {len(texts)} sections, approved by {decision.decided_by}"


async def write(section: str) -> str:
    print(f"  process {os.getpid()}: writing {section}", flush=True)
    await asyncio.sleep(0.5)
    return f"All about {section}."


async def send(title: str, letters: int) -> str:
    """A side effect: that it is about to happen is on disk before, that it has happened after."""
    print(f"  sending it: {title}, {letters} letters", flush=True)
    return f"{title} was sent"


async def main() -> None:
    console.print("\n[bold]Cortex Plane[/]: a job outlives its worker, and waits for a person\n")
    await plane.people.add("ada", display_name="Ada")
    await plane.access.give_role("ada", "approver")
    job = await weekly_report.submit(week=46)
    console.print(f"[cyan]1.[/] Submitted job {job.id}\n")

    console.print("[cyan]2.[/] Worker A takes it …")
    worker = start_worker()
    await until(job, JobStatus.RUNNING)
    await asyncio.sleep(1.2)

    console.print("\n[cyan]3.[/] … and is [bold red]killed[/] in the middle of it (SIGKILL, as a power cut would)")
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    console.print(f"   The job is still [yellow]{await job.status()}[/]; nobody is working on it.\n")

    console.print("[cyan]4.[/] Worker B notices that A has fallen silent, and goes on with the section that was not finished …")
    worker = start_worker()
    await until(job, JobStatus.WAITING_FOR_APPROVAL)
    await decide(job)
    result = await job.result(timeout=45)
    console.print(f"\n[cyan]7.[/] Result: [green]{result}[/]\n")
    worker.send_signal(signal.SIGTERM)
    worker.wait()

    await print_history(job)
    print_runs(await job.runs())
    await plane.close()
    console.print("\nEvery line above comes from the database. Next: read README.md, or try [bold].venv/bin/cortex --help[/]\n")


def start_worker() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, __file__, "worker"])


async def until(job: JobHandle[str], status: JobStatus) -> None:
    async with asyncio.timeout(45):
        while await job.status() is not status:  # noqa: ASYNC110 - another process sets it
            await asyncio.sleep(0.05)


async def decide(job: JobHandle[str]) -> None:
    """As `cortex approvals approve ID --as ada` does it; a page, an API and three chats lead to the same place."""
    [request] = await plane.approvals.list(waiting_for="ada", job=job.id)
    console.print(f"\n[cyan]5.[/] The job is [magenta]{await job.status()}[/]: {request.action_summary}? {request.details}")
    answer = await plane.approvals.approve(request.id, by="ada", reason="Well written", door="cli")
    console.print(f"[cyan]6.[/] Ada approves: {told(answer)}")


async def print_history(job: JobHandle[str]) -> None:
    table = narrow("when", "from", "to", "because", "by", title="History of the job")
    for entry in await job.history():
        table.add_row(
            f"{entry.created_at:%H:%M:%S}",
            entry.previous_status or "",
            entry.new_status,
            (entry.metadata or {}).get("wait_reason") or entry.cause,
            short(entry.actor),
        )
    console.print(table)


def print_runs(runs: list[Run]) -> None:
    table = narrow("attempt", "worker", "ended", "error", title="Its runs")
    for run in runs:
        table.add_row(str(run.attempt), short(run.worker_id), run.status, run.error or "")
    console.print(table)


def short(name: str | None) -> str:
    """People by name; of an id the last characters are the ones that differ."""
    rest = (name or "").rpartition(":")[2]
    return f"…{rest[-6:]}" if len(rest) > 30 else rest


def narrow(*headings: str, title: str) -> Table:
    return Table(*headings, title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)


async def work() -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, plane.stop_workers)
    await plane.run_worker()
    await plane.close()


def quiet() -> None:
    import logging

    import structlog

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))


if __name__ == "__main__":
    quiet()
    if sys.argv[1:] == ["worker"]:
        asyncio.run(work())
    else:
        with tempfile.TemporaryDirectory(prefix="cortex-demo-") as folder:
            os.environ["CORTEX_DATABASE_URL"] = f"sqlite:///{Path(folder) / 'demo.db'}"
            plane.settings = Settings(database_url=os.environ["CORTEX_DATABASE_URL"], lease_seconds=2.0)
            asyncio.run(main())
