"""People name a job by its id, or by the first part of one."""

from __future__ import annotations

import pytest

from cortex_plane import Context
from cortex_plane.errors import AmbiguousJob, InvalidInput, JobNotFound
from cortex_plane.testing import TestPlane

pytestmark = pytest.mark.anyio


async def one_job(plane: TestPlane) -> str:
    if "echo" not in plane.agents:

        @plane.agent("echo")
        async def echo(ctx: Context) -> None: ...

    return (await plane.submit("echo")).id


async def test_a_job_is_found_by_any_first_part_of_four_characters_or_more(plane: TestPlane) -> None:
    job_id = await one_job(plane)

    for length in range(4, 37):
        assert await plane.jobs.find(job_id[:length]) == job_id
        assert (await plane.jobs.get(job_id[:length])).id == job_id


async def test_case_and_blanks_around_an_id_do_not_matter(plane: TestPlane) -> None:
    job_id = await one_job(plane)

    assert await plane.jobs.find(f"  {job_id[:18].upper()}\n") == job_id


async def test_a_part_that_fits_several_jobs_is_refused_and_names_some(plane: TestPlane) -> None:
    ids = [await one_job(plane) for _ in range(7)]

    with pytest.raises(AmbiguousJob, match="matches 5 or more jobs") as refused:
        await plane.jobs.find(ids[0][:6])
    assert ids[0] in str(refused.value)


async def test_a_part_that_fits_none_is_said_to_be_missing(plane: TestPlane) -> None:
    await one_job(plane)

    for part in ("ffffffff", "ffff", "00000000-0000-7000-8000-000000000001"):
        with pytest.raises(JobNotFound, match=part):
            await plane.jobs.get(part)


NO_PART_OF_AN_ID = [
    "",
    "abc",
    "0197-",
    "xyz12345",
    "%",
    "____",
    "0197%",
    "'; drop table job",
    "0197 8",
    "--------",
    "0" * 37,
    "٣٣٣٣",
]


async def test_what_is_no_part_of_an_id_is_refused(plane: TestPlane) -> None:
    for text in NO_PART_OF_AN_ID:
        with pytest.raises(InvalidInput, match="not a job id"):
            await plane.jobs.find(text)
