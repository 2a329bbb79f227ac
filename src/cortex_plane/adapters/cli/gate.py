"""`cortex gate`: the one switch for everything."""

from __future__ import annotations

from cortex_plane.adapters.cli.hints import next_step
from cortex_plane.adapters.cli.options import AsJson, PlaneUrl, Reason
from cortex_plane.adapters.cli.planes import existing_plane, me


async def close(*, reason: Reason = None, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """Close the gate: nothing more is started, anywhere, until it is opened.

    What runs goes on, new jobs are accepted, and jobs of lost workers are still rescued.

    Try:
        cortex gate close --reason "the warehouse is on fire"
    """
    async with existing_plane(plane_url) as plane:
        changed = await plane.close_gate(reason, actor=me())
    _say("closed", changed, as_json)
    if not as_json:
        next_step("To open it again", "cortex gate open", plane_url)
    return 0


async def open_gate(*, reason: Reason = None, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """Open the gate: waiting jobs start again, in their order.

    Try:
        cortex gate open
    """
    async with existing_plane(plane_url) as plane:
        changed = await plane.open_gate(reason, actor=me())
    _say("open", changed, as_json)
    return 0


async def status(*, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """Show whether the gate is open, and everything else that is paused or limited.

    Try:
        cortex gate status
    """
    from cortex_plane.adapters.cli.control_views import as_document, controls_table
    from cortex_plane.adapters.cli.output import console, print_json
    from cortex_plane.operations.steer_work import is_open

    async with existing_plane(plane_url) as plane:
        controls = await plane.controls()
    if as_json:
        print_json({"open": is_open(controls), "controls": [as_document(control) for control in controls]})
        return 0
    print("The gate is open." if is_open(controls) else "The gate is closed.")
    if controls:
        console().print(controls_table(controls))
    return 0


def _say(state: str, changed: bool, as_json: bool) -> None:
    from cortex_plane.adapters.cli.output import print_json

    if as_json:
        print_json({"gate": state, "changed": changed})
    else:
        print(f"The gate is {state}." if changed else f"The gate was {state} already.")
