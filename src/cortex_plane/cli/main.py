"""The table of commands. A command's module is imported when the command runs, so that `cortex --help` is fast."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from cortex_plane.cli.errors import guarded

if TYPE_CHECKING:
    from cyclopts import App


HERE = "cortex_plane"


class Command(NamedTuple):
    """The function of a command, its positional arguments, and the first line of its help."""

    target: str
    arguments: str
    sentence: str


GROUPS = {
    "jobs": "Submit, inspect and control jobs.",
    "runs": "Inspect the runs of jobs.",
    "queues": "List, pause and limit queues, agents and tenants.",
    "workers": "List and drain workers.",
    "gate": "Stop new work everywhere, and start it again.",
    "approvals": "List and decide approvals.",
    "templates": "Save job definitions, and submit jobs from them.",
    "groups": "Submit and inspect groups of jobs.",
    "schedules": "Run agents, templates and graphs by cron rules.",
    "grants": "Manage the permissions that scheduled work runs under.",
    "billing": "Manage the accounts that scheduled work is charged to.",
    "webhooks": "Send signed messages when jobs end.",
    "tenants": "Manage the tenants that own jobs.",
    "keys": "Manage API keys.",
    "sessions": "Manage the conversations that jobs belong to.",
    "users": "Manage users: roles, passwords and addresses.",
    "user-groups": "Manage groups of users, for approvals.",
    "budgets": "Limit what agents and tenants may spend.",
    "retention": "Set how long finished jobs are kept.",
    "checkpoints": "Verify checkpoints, and test new code against them.",
    "schema": "Print the JSON Schema of stored data.",
    "audit": "List audit entries, and verify the audit log.",
    "db": "Inspect and upgrade the database.",
}

COMMANDS = {
    "new": Command("cli.new:new", "NAME", "Create a small project: an agent, its tests, and a README."),
    "dev": Command(
        "cli.dev:dev",
        "[APP]",
        "Run an app, a worker and the dashboard on this machine, and restart the worker when files change.",
    ),
    "worker": Command("worker.cli:worker", "[APP]", "Run the agents of an app until you stop it."),
    "serve": Command("cli.serve:serve", "[APP]", "Serve the HTTP API and the dashboard until you stop it."),
    "jobs submit": Command("jobs.cli:submit", "AGENT [PAYLOAD ...]", "Submit a job for an agent."),
    "jobs list": Command("jobs.cli:list_jobs", "", "List jobs, newest first."),
    "jobs show": Command("jobs.cli:show", "ID", "Show one job: its data, its steps, its runs and its history."),
    "jobs watch": Command("jobs.cli:watch", "ID", "Follow a job until it ends."),
    "jobs cancel": Command("jobs.cli:cancel", "ID", "Cancel a job that has not ended."),
    "jobs resume": Command("jobs.cli:resume", "ID", "Go on with a job that failed or was cancelled, where it stopped."),
    "jobs settle": Command("jobs.cli:settle", "ID CALL", "Say what became of an uncertain tool call, and go on with its job."),
    "jobs retry": Command("jobs.cli:retry", "ID", "Run a finished job again from the beginning, as a new job."),
    "jobs release": Command("jobs.cli:release", "ID", "Try a job again that is held because its code did not fit."),
    "jobs fork": Command("durable.cli:fork", "ID", "Start a job anew from one of its steps, as a new job."),
    "jobs replay": Command("durable.cli:replay", "ID [APP]", "Compare an agent's code with what is recorded of a job."),
    "jobs why": Command("queues.cli:why", "ID", "Explain why a job is not running."),
    "jobs move": Command("queues.cli:move", "ID", "Move a waiting job within its queue."),
    "jobs priority": Command("queues.cli:priority", "ID PRIORITY", "Change the priority of a waiting job."),
    "runs list": Command("jobs.cli_runs:list_runs", "", "List runs, those of the newest jobs first."),
    "runs show": Command(
        "jobs.cli_runs:show",
        "ID",
        "Show one run: which attempt of which job, on which worker, from when to when, and how it ended.",
    ),
    "queues list": Command("queues.cli:list_queues", "", "List queues with their waiting and running jobs and settings."),
    "queues pause": Command(
        "queues.cli:pause", "[QUEUE]", "Pause a queue, an agent or a tenant: its jobs are no longer started."
    ),
    "queues resume": Command("queues.cli:resume", "[QUEUE]", "Resume a paused queue, agent or tenant."),
    "queues limit": Command(
        "queues.cli:limit", "[QUEUE]", "Limit the number of running jobs of a queue, an agent or a tenant, over all workers."
    ),
    "queues fair-share": Command(
        "queues.cli:fair_share", "QUEUE", "Enable fair share: claims rotate between the tenants of a queue."
    ),
    "queues reservations": Command("queues.cli:reservations", "", "List the queues that are reserved for one job, and by whom."),
    "queues release": Command("queues.cli:release", "RESERVATION", "End a reservation by force. Its job stays in the queue."),
    "workers list": Command(
        "worker.cli:list_workers", "", "List the workers that live: how busy each is, and when it was last heard of."
    ),
    "workers drain": Command(
        "worker.cli:drain", "ID", "Ask a worker, wherever it runs, to finish what it has, take nothing more, and end."
    ),
    "gate close": Command("queues.cli:close", "", "Close the gate: no job is started until it is opened."),
    "gate open": Command("queues.cli:open_gate", "", "Open the gate: waiting jobs start in queue order."),
    "gate status": Command(
        "queues.cli:status", "", "Show whether the gate is open, and everything else that is paused or limited."
    ),
    "approvals list": Command("approvals.cli:list_approvals", "", "List open approval requests, newest first."),
    "approvals show": Command(
        "approvals.cli:show", "ID", "Show a request: its details, approvers, votes, notifications and outcome."
    ),
    "approvals approve": Command("approvals.cli:approve", "ID [ID ...]", "Approve requests. Their jobs resume."),
    "approvals deny": Command(
        "approvals.cli:deny",
        "ID [ID ...]",
        'Deny requests. Their jobs fail, or resume with the denial if the agent uses on_denial="raise".',
    ),
    "approvals remind": Command("approvals.cli:remind", "ID", "Notify all approvers who have not voted yet again."),
    "templates save": Command(
        "templates.cli:save", "NAME AGENT [PARAMS ...]", "Save a job definition under a name, or change it."
    ),
    "templates list": Command("templates.cli:list_templates", "", "List templates by name."),
    "templates show": Command("templates.cli:show", "NAME", "Show one template."),
    "templates remove": Command("templates.cli:remove", "NAME", "Remove a template. Its jobs stay."),
    "templates submit": Command("templates.cli:submit", "NAME [OVERRIDES ...]", "Submit a job from a template."),
    "groups submit": Command("groups.cli:submit", "FILE", "Submit jobs that belong together: all of them or none."),
    "groups list": Command("groups.cli:list_groups", "", "List groups, newest first."),
    "groups show": Command("groups.cli:show", "ID", "Show one group and its members."),
    "groups cancel": Command("groups.cli:cancel", "ID", "Cancel every member of a group that has not ended."),
    "schedules add": Command(
        "schedules.cli:add", "NAME TARGET CRON [INPUT ...]", "Run an agent, a template or a graph by a cron rule."
    ),
    "schedules list": Command("schedules.cli:list_schedules", "", "List schedules by name."),
    "schedules show": Command("schedules.cli:show", "NAME", "Show one schedule, and what became of its last slots."),
    "schedules next": Command("schedules.cli:coming", "NAME", "Show the coming slots of a schedule, in its zone and in UTC."),
    "schedules pause": Command(
        "schedules.cli:pause", "NAME", "Pause a schedule: no further slot of it begins. One that runs goes on."
    ),
    "schedules resume": Command("schedules.cli:resume", "NAME", "Let a paused schedule go on, from its next slot."),
    "schedules trigger": Command(
        "schedules.cli:trigger",
        "NAME",
        "Run one slot now, whatever the rule says. Its grant is used and charged as for any other.",
    ),
    "schedules backfill": Command(
        "schedules.cli:backfill", "NAME", "Run the slots of a past range that did not run. Each is charged."
    ),
    "schedules remove": Command(
        "schedules.cli:remove", "NAME", "Remove a schedule and the record of its slots. What it started goes on."
    ),
    "grants add": Command(
        "grants.cli:add", "SCOPE ...", "Allow schedules and services to run something, without anybody's session."
    ),
    "grants list": Command("grants.cli:list_grants", "", "List grants, newest first."),
    "grants show": Command("grants.cli:show", "ID", "Show one grant, and the schedules under it."),
    "grants revoke": Command(
        "grants.cli:revoke",
        "ID",
        "Take a grant back: its schedules pause, what waits under it is cancelled, what runs is asked to stop.",
    ),
    "billing add": Command("costs.cli:add", "NAME", "Add a billing account. One that is there already stays as it is."),
    "billing list": Command("costs.cli:list_accounts", "", "List billing accounts, with what their runs have used."),
    "webhooks add": Command("webhooks.cli:add", "URL", "Tell an address, by signed messages, when jobs end."),
    "webhooks list": Command("webhooks.cli:list_webhooks", "", "List the addresses that are told when jobs end."),
    "webhooks remove": Command(
        "webhooks.cli:remove", "ID", "Remove an address. What was still to be delivered to it is dropped."
    ),
    "webhooks enable": Command("webhooks.cli:enable", "ID", "Tell an address again that was disabled."),
    "webhooks disable": Command("webhooks.cli:disable", "ID", "Tell an address nothing more until it is enabled."),
    "webhooks test": Command(
        "webhooks.cli:send_test", "ID", "Send an address one message, so that its owner sees that everything works."
    ),
    "webhooks dead-letters": Command(
        "webhooks.cli:dead_letters", "", "List the messages that could not be delivered, newest first."
    ),
    "webhooks redeliver": Command("webhooks.cli:redeliver", "ID", "Send a message again whose delivery failed."),
    "tenants add": Command("people.cli_tenants:add", "NAME", "Add a tenant."),
    "tenants erase": Command("people.cli_tenants:erase", "NAME", "Remove all that is stored for a tenant."),
    "tenants list": Command("people.cli_tenants:list_tenants", "", "List tenants, by name."),
    "tenants show": Command(
        "people.cli_tenants:show", "NAME", "Show one tenant: what runs and waits, what it has cost, what is set for it."
    ),
    "keys add": Command("people.cli_access:add", "NAME", "Make an API key for a program."),
    "keys list": Command("people.cli_access:list_keys", "", "List API keys, oldest first; those that no longer work, too."),
    "keys revoke": Command("people.cli_access:revoke", "KEY", "Take an API key back. It stops working at once."),
    "sessions start": Command(
        "people.cli_access:start", "USER", "Start a session: its user is asked where an approval names nobody."
    ),
    "sessions list": Command("people.cli_access:list_sessions", "", "List sessions, newest first."),
    "sessions show": Command("people.cli_access:show", "ID", "Show one session."),
    "sessions end": Command("people.cli_access:end", "ID", "End a session: no job is submitted from it any more."),
    "users add": Command("people.cli:add", "NAME", "Add a user who signs in, decides, or is asked."),
    "users list": Command("people.cli:list_users", "", "List users, by name."),
    "users show": Command("people.cli:show", "NAME", "Show one user: roles, and where they are reached."),
    "users disable": Command("people.cli:disable", "NAME", "Disable a user: from now on they may do nothing."),
    "users erase": Command("people.cli:erase", "NAME", "Remove what is stored about a user; the audit log keeps a pseudonym."),
    "users enable": Command("people.cli:enable", "NAME", "Enable a user who was disabled."),
    "users link": Command(
        "people.cli:link", "NAME CHANNEL ADDRESS", "Link an address to a user, so that requests reach them there."
    ),
    "users unlink": Command("people.cli:unlink", "NAME ID", "Unlink an address from a user."),
    "users owner": Command("people.cli:owner", "NAME ADMIN", "Give a service account to another admin."),
    "users password": Command("people.cli:set_password", "NAME", "Set a user's password, and sign them out everywhere."),
    "users add-role": Command("people.cli:add_role", "NAME ROLE", "Give a user a role."),
    "users remove-role": Command("people.cli:remove_role", "NAME ROLE", "Take a role from a user."),
    "user-groups add": Command("people.cli:add_group", "GROUP", "Add a group of people who may be asked together."),
    "user-groups list": Command("people.cli:list_groups", "", "List groups of people, with who is in them."),
    "user-groups join": Command("people.cli:join", "NAME GROUP", "Put a user into a group."),
    "user-groups leave": Command("people.cli:leave", "NAME GROUP", "Take a user out of a group."),
    "budgets set": Command("costs.cli:set_budget", "CENTS", "Set what an agent or a tenant may spend."),
    "budgets list": Command("costs.cli:list_budgets", "", "List budgets, with what is spent of them."),
    "budgets remove": Command("costs.cli:remove_budget", "", "Remove the budget of an agent or a tenant."),
    "retention add": Command("retention.cli:add", "KEEP", "Add a rule: finished jobs are deleted after a time."),
    "retention list": Command("retention.cli:list_rules", "", "List the rules about how long finished jobs are kept."),
    "retention remove": Command("retention.cli:remove", "ID", "Remove a rule; its jobs are kept as the other rules say."),
    "retention run": Command("retention.cli:run", "", "Delete now what the rules no longer keep."),
    "checkpoints verify": Command("durable.cli:verify", "", "Check the checkpoint of every job that has not ended."),
    "checkpoints migrate": Command(
        "durable.cli:migrate", "[APP]", "Try on every job that has not ended whether this code could go on with it."
    ),
    "checkpoints show": Command("durable.cli:show", "ID", "Print a job's checkpoint, as indented JSON."),
    "schema checkpoint": Command("durable.cli:schema", "", "Print the JSON Schema of checkpoints."),
    "audit list": Command("audit.cli:list_entries", "", "List what was recorded, newest first."),
    "audit export": Command("audit.cli:export", "TARGET", "Send seals elsewhere, so that a cut-off end is noticed."),
    "audit verify": Command("audit.cli:verify", "", "Check that nobody changed what was recorded."),
    "db status": Command("cli.db:status", "", "Show the schema version of the database."),
    "db upgrade": Command("cli.db:upgrade", "", "Create or upgrade the schema."),
    "db repair": Command("cli.db:repair", "", "Repair jobs that are marked as running although no run exists."),
    "completion": Command("cli.completion:completion", "SHELL", "Print a completion script for a shell."),
    "doctor": Command("cli.doctor:doctor", "", "Check the settings, the database and the workers."),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    return guarded(lambda: _run(words))


def _run(words: list[str]) -> int:
    match words:
        case [] | ["help" | "--help" | "-h"]:
            from cortex_plane.cli.front_page import front_page

            print(front_page(_front_lines(), sys.stdout))
            return 0
        case ["--version" | "-V"]:
            from cortex_plane import __version__

            print(f"cortex-plane {__version__}")
            return 0
        case _:
            result = command_tree()(words, exit_on_error=False, print_error=False, result_action="return_value")
            return result if isinstance(result, int) else 0


def _front_lines() -> dict[str, str]:
    """The lines of the front page: basic commands one by one, the others by group."""
    lines: dict[str, str] = {}
    for path, command in COMMANDS.items():
        group = path.split()[0]
        if group in GROUPS and group != "jobs":
            lines.setdefault(group, GROUPS[group])
        else:
            lines[path] = command.sentence
    return lines


def command_tree() -> App:
    root = _app("cortex", {path: command.sentence for path, command in COMMANDS.items()})
    groups: dict[str, App] = {"": root}
    for name, sentence in GROUPS.items():
        members = {path.split()[1]: command.sentence for path, command in COMMANDS.items() if path.startswith(f"{name} ")}
        groups[name] = _app(name, members, help=sentence)
        root.command(groups[name])
    for path, command in COMMANDS.items():
        group, _, name = path.rpartition(" ")
        usage = " ".join(["cortex", path, *command.arguments.split(), "[OPTIONS]"])
        groups[group].command(f"{HERE}.{command.target}", name=name, usage=usage)
    return root


def _app(name: str, sentences: Mapping[str, str], **options: Any) -> App:
    from cyclopts import App, Parameter

    from cortex_plane.cli.help import HelpFormatter

    return App(
        name,
        help_format="plaintext",
        help_formatter=HelpFormatter(sentences),
        version_flags=(),
        default_parameter=Parameter(negative=(), show_default=False),
        suppress_keyboard_interrupt=False,
        **options,
    )
