"""The commands that look at single rows: `list`, `show`, `explain`; and `requeue` by the ids that logs carry."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

import pytest
from messenger_jobs.adapters.memory.schema import OutboxRow
from messenger_jobs.adapters.postgres.lock_holder import LockHolder
from messenger_jobs.application.announce_recording import Announcer
from messenger_jobs.application.integration_events import call_recording_available, deal_chat_status_changed
from messenger_jobs.domain.call_recording import RecordingAvailable, RecordingStatus
from messenger_jobs.domain.chat import ChatEvent
from messenger_jobs.domain.deal_chat_provision import (
    DealChatProvision,
    DealChatStatusChanged,
    ProvisionStatus,
)
from messenger_jobs.domain.recording_finalize import FinalizeStatus
from messenger_jobs.entrypoints.row_facts import explained_facts
from messenger_jobs.entrypoints.settings import load_settings

from tests.support.builders import (
    CHAT_ID,
    DEAL_ID,
    NOW,
    PROVISION_ID,
    SELLER,
    a_chat,
    a_failed_provision,
    a_participant,
    a_provision,
    a_ready_provision,
    some_id,
)
from tests.support.command_line import URL, CommandLine
from tests.support.recording_command_line import ENABLED, RecordingCommandLine
from tests.support.recordings import ENTRY_ID, RECORDING_ID, SESSION_ID, a_pair, a_recording, an_entry

CHATS: Final = "chat-provision-retry"
RECORDINGS: Final = "recording-finalize-retry"
MINUTE: Final = timedelta(minutes=1)


@pytest.fixture
def command_line() -> CommandLine:
    return CommandLine()


@pytest.fixture
def recordings() -> RecordingCommandLine:
    return RecordingCommandLine()


def numbered(number: int, **changes: Any) -> DealChatProvision:
    return a_provision(id=some_id(number), deal_id=some_id(1000 + number), **changes)


def put_one_of_each(command_line: CommandLine) -> None:
    command_line.rows.put(command_line.rows.chats, a_chat())
    command_line.put(
        numbered(101, next_attempt_at=NOW - MINUTE),
        numbered(102, status=ProvisionStatus.FAILED, attempts=1, next_attempt_at=NOW + MINUTE),
        numbered(103, status=ProvisionStatus.FAILED, attempts=8, last_error="ProvisionGuard:NO_MEMBERS"),
        a_ready_provision(),
        numbered(105, next_attempt_at=NOW - 2 * MINUTE),
    )


def put_ready_deal(command_line: CommandLine) -> None:
    rows = command_line.rows
    rows.put(rows.chats, a_chat())
    rows.put(rows.participants, a_participant(), a_participant(SELLER, left_at=NOW))
    rows.put(
        rows.chat_events,
        ChatEvent(
            id=some_id(50),
            chat_id=CHAT_ID,
            type="DealChatProvisioned",
            actor="System",
            occurred_at=NOW,
            data={},
        ),
    )
    told = DealChatStatusChanged(
        deal_id=DEAL_ID, chat_id=CHAT_ID, status=ProvisionStatus.READY, occurred_at=NOW
    )
    message = deal_chat_status_changed(told, event_id=some_id(60), correlation_id=some_id(61))
    rows.put(rows.outbox, OutboxRow(id=7, message=message, created_at=NOW, published_at=NOW + MINUTE))
    command_line.put(a_ready_provision())


class TestList:
    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            (("--state", "due"), [("due", 105), ("due", 101)]),
            (("--state", "waiting"), [("waiting", 102)]),
            (("--state", "poison"), [("poison", 103)]),
            (
                ("--state", "all"),
                [("due", 105), ("due", 101), ("waiting", 102), ("poison", 103), ("finished", 2)],
            ),
            (("--limit", "3"), [("due", 105), ("due", 101), ("waiting", 102)]),
        ],
        ids=["due", "waiting", "poison", "all", "limit"],
    )
    def test_rows_of_a_state_come_in_their_order(
        self, command_line: CommandLine, arguments: Sequence[str], expected: list[tuple[str, int]]
    ) -> None:
        put_one_of_each(command_line)

        rows = command_line.json("list", CHATS, *arguments)

        assert [(row["state"], row["id"]) for row in rows] == [
            (state, str(some_id(number))) for state, number in expected
        ]

    def test_row_tells_its_schedule_and_nothing_of_its_deal(self, command_line: CommandLine) -> None:
        command_line.put(a_failed_provision())

        (row,) = command_line.json("list", CHATS)

        assert row == {
            "state": "due",
            "id": str(PROVISION_ID),
            "deal_id": str(DEAL_ID),
            "chat_id": None,
            "status": "Failed",
            "attempts": 1,
            "next_attempt_at": NOW.isoformat(),
            "last_error": "ProvisionGuard:NO_MEMBERS",
            "created_at": (NOW - timedelta(days=1)).isoformat(),
            "updated_at": (NOW - 5 * MINUTE).isoformat(),
        }

    def test_table_has_the_same_columns_and_says_when_there_may_be_more(
        self, command_line: CommandLine
    ) -> None:
        put_one_of_each(command_line)

        (row,) = command_line.json("list", CHATS, "--limit", "1")
        table = command_line.run("list", CHATS, "--limit", "1").stdout

        assert f"{CHATS}: rows listed: 1 (there may be more: --limit)" in table
        for name, fact in row.items():
            assert name in table
            assert ("-" if fact is None else str(fact)) in table
        assert "there may be more" not in command_line.run("list", CHATS).stdout

    def test_more_rows_than_a_page_are_all_listed(self, command_line: CommandLine) -> None:
        command_line.put(*(numbered(2000 + number) for number in range(1001)))

        rows = command_line.json("list", CHATS, "--limit", "5000")

        assert [row["id"] for row in rows] == [str(some_id(2000 + number)) for number in range(1001)]

    @pytest.mark.parametrize(
        "arguments", [("--state", "ready"), ("--limit", "0"), ("--limit", "x")], ids=" ".join
    )
    def test_wrong_usage_is_told(self, command_line: CommandLine, arguments: Sequence[str]) -> None:
        result = command_line.run("list", CHATS, *arguments)

        assert (result.exit_code, result.stdout) == (2, "")
        (line,) = result.stderr.splitlines()
        assert arguments[0] in line

    def test_recordings_are_listed_by_state(self, recordings: RecordingCommandLine) -> None:
        entries = [
            an_entry(id=some_id(201), recording_id=some_id(301)),
            an_entry(id=some_id(202), recording_id=some_id(302), next_attempt_at=NOW + MINUTE),
            an_entry(id=some_id(203), recording_id=some_id(303), status=FinalizeStatus.QUARANTINED),
            an_entry(id=some_id(204), recording_id=some_id(304), status=FinalizeStatus.DONE),
        ]
        recordings.rows.put(recordings.rows.finalizations, *entries)

        rows = recordings.json("list", RECORDINGS, **ENABLED)

        assert [(row["state"], row["recording_id"], row["session_id"]) for row in rows] == [
            (state, str(some_id(number)), str(SESSION_ID))
            for state, number in [("due", 301), ("waiting", 302), ("poison", 303), ("finished", 304)]
        ]


class TestShow:
    @pytest.mark.parametrize("id", [PROVISION_ID, DEAL_ID], ids=["its own", "its deal's"])
    def test_deal_is_shown_with_what_belongs_to_it(self, command_line: CommandLine, id: object) -> None:
        put_ready_deal(command_line)

        shown = command_line.json("show", CHATS, str(id))

        assert (shown["id"], shown["deal_id"], shown["status"]) == (str(PROVISION_ID), str(DEAL_ID), "Ready")
        assert (shown["members"], shown["participants"]) == (2, 1)
        assert (shown["deals_chat_id"], shown["chat_kind"], shown["chat_status"]) == (
            str(CHAT_ID),
            "Deal",
            "Active",
        )
        assert shown["events"] == [
            {"id": str(some_id(50)), "type": "DealChatProvisioned", "occurred_at": NOW.isoformat()}
        ]
        assert shown["messages"] == [
            {
                "id": 7,
                "event_id": str(some_id(60)),
                "event_type": "DealChatStatusChanged",
                "occurred_at": NOW.isoformat(),
                "published_at": (NOW + MINUTE).isoformat(),
                "dead_at": None,
            }
        ]

    def test_tables_tell_the_same(self, command_line: CommandLine) -> None:
        put_ready_deal(command_line)

        shown = command_line.json("show", CHATS, str(DEAL_ID))
        tables = command_line.run("show", CHATS, str(DEAL_ID)).stdout

        parts = [shown.pop("events"), shown.pop("messages")]
        for facts in (shown, *parts[0], *parts[1]):
            for name, fact in facts.items():
                assert name in tables
                assert ("-" if fact is None else str(fact)) in tables

    @pytest.mark.parametrize("id", [ENTRY_ID, RECORDING_ID], ids=["its own", "its recording's"])
    def test_recording_is_shown_with_what_the_outside_was_told(
        self, recordings: RecordingCommandLine, id: object
    ) -> None:
        rows = recordings.rows
        available = RecordingAvailable(recording=a_recording(status=RecordingStatus.AVAILABLE))
        message = call_recording_available(available, event_id=some_id(60), correlation_id=some_id(61))
        rows.put(rows.recordings, available.recording)
        rows.put(rows.finalizations, an_entry(status=FinalizeStatus.DONE))
        rows.put(rows.outbox, OutboxRow(id=7, message=message, created_at=NOW))
        announcer = Announcer(clock=recordings.clock, new_id=lambda: some_id(70))
        rows.put(rows.realtime_outbox, announcer.notice(available))

        shown = recordings.json("show", RECORDINGS, str(id), **ENABLED)

        assert (shown["id"], shown["recording_id"]) == (str(ENTRY_ID), str(RECORDING_ID))
        assert (shown["recording_status"], shown["event_recorded"]) == ("Available", True)
        assert [(part["event_id"], part["published_at"]) for part in shown["messages"]] == [
            (str(some_id(60)), None)
        ]
        assert [(part["id"], part["kind"]) for part in shown["notices"]] == [
            (str(some_id(70)), "RecordingAvailable")
        ]


class TestExplain:
    @pytest.mark.parametrize(
        ("provision", "sentence"),
        [
            (
                a_provision(),
                (
                    "It has been due since 2026-03-14T09:26:53.589+00:00. "
                    "The next cycle, within 60 seconds where a worker runs, takes it."
                ),
            ),
            (
                a_provision(updated_at=NOW),
                (
                    "Its deal is in flight: whoever stored it is still expected to finish it. "
                    "If that does not happen, the first cycle from 2026-03-14T09:31:53.589+00:00 on takes it."
                ),
            ),
            (
                a_failed_provision(attempts=3, next_attempt_at=NOW + MINUTE),
                (
                    "Attempt 3 of 8 failed, with the last error ProvisionGuard:NO_MEMBERS. "
                    "The first cycle from 2026-03-14T09:27:53.589+00:00 on takes it."
                ),
            ),
            (
                a_failed_provision(attempts=8),
                (
                    "All 8 attempts are used up, with the last error ProvisionGuard:NO_MEMBERS: it waits for "
                    f"`messenger-jobs requeue chat-provision-retry {PROVISION_ID}`."
                ),
            ),
        ],
        ids=["due", "in flight", "backoff", "poison"],
    )
    def test_sentence_says_why_and_when(
        self, command_line: CommandLine, provision: DealChatProvision, sentence: str
    ) -> None:
        command_line.put(provision)

        facts = command_line.json("explain", CHATS, str(DEAL_ID))

        assert facts["explanation"] == sentence
        assert facts["taken_now"] is (facts["reason"] == "due")
        assert sentence in command_line.run("explain", CHATS, str(PROVISION_ID)).stdout

    def test_running_cycle_is_told(self, command_line: CommandLine) -> None:
        command_line.put(a_provision())
        command_line.database.holder = LockHolder(
            pid=4711, application_name=None, client_address=None, connected_at=None, confirmed_at=None
        )

        facts = command_line.json("explain", CHATS, str(DEAL_ID))

        assert facts["cycle_running_pid"] == 4711
        assert facts["explanation"].endswith(
            "A cycle is running (backend 4711): it, or the one after it, takes it."
        )

    def test_recording_that_waits_says_for_what(self, recordings: RecordingCommandLine) -> None:
        recording, entry = a_pair(1, session_ended_at=NOW - MINUTE)
        recordings.rows.put(recordings.rows.recordings, recording)
        recordings.rows.put(recordings.rows.finalizations, entry)

        facts = recordings.json("explain", RECORDINGS, str(recording.id), **ENABLED)

        assert (facts["taken_now"], facts["next_step"]) == (True, "defer")
        assert facts["explanation"].endswith(
            "lets it wait on, uncounted, until 2026-03-14T09:55:53.589+00:00: so long has its upload to be confirmed."
        )
        assert facts["session_ended_at"] == (NOW - MINUTE).isoformat()

    async def test_recording_that_somebody_has_in_hand_is_told(
        self, recordings: RecordingCommandLine
    ) -> None:
        recordings.put_due(file=True)
        rows = recordings.rows
        settings = load_settings({"MESSENGER_DATABASE_URL": URL, **ENABLED})
        async with recordings.compose(settings) as application, rows.begin() as other:
            async with other.statement("lock"):
                assert await other.lock(rows.recordings, RECORDING_ID) is not None
            job = application.jobs[RECORDINGS]
            facts = explained_facts(
                RECORDINGS, await job.inspection.explained(RECORDING_ID), job.options, None
            )

        assert (facts["locked"], facts["recording_locked"], facts["taken_now"]) == (False, True, True)
        assert str(facts["explanation"]).endswith(
            "counts an attempt and asks storage for its file, but another transaction has the recording locked"
            " (the server does not tell which)."
        )

    @pytest.mark.parametrize("command", ["show", "explain"])
    def test_id_of_nothing_is_one_sentence(self, command_line: CommandLine, command: str) -> None:
        missing = some_id(404)

        result = command_line.run(command, CHATS, str(missing))

        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == (
            f"messenger-jobs: {missing}: there is no provision with this id, and none of a deal with it\n"
        )

    @pytest.mark.parametrize("command", ["show", "explain"])
    def test_recording_that_was_never_opened_is_one_sentence(
        self, recordings: RecordingCommandLine, command: str
    ) -> None:
        recordings.rows.put(recordings.rows.recordings, a_recording(status=RecordingStatus.RECORDING))

        result = recordings.run(command, RECORDINGS, str(RECORDING_ID), **ENABLED)

        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == (
            f"messenger-jobs: {RECORDING_ID}: the recording is Recording and was never opened for finalization\n"
        )


@pytest.mark.parametrize("command", ["list", "show", "explain"])
def test_unknown_job_and_text_that_is_no_id_are_wrong_usage(command_line: CommandLine, command: str) -> None:
    ids = () if command == "list" else (str(DEAL_ID),)
    wrong_job = command_line.run(command, "chats", *ids)
    assert wrong_job.exit_code == 2
    assert wrong_job.stderr == f"messenger-jobs: there is no job chats; the jobs are: {CHATS}\n"
    if ids:
        wrong_id = command_line.run(command, CHATS, "everything")
        assert (wrong_id.exit_code, wrong_id.stderr) == (
            2,
            "messenger-jobs: everything is no id: ids are UUIDs\n",
        )


def test_deal_is_requeued_by_the_id_that_its_logs_carry(command_line: CommandLine) -> None:
    command_line.put(a_failed_provision(attempts=8))

    (row,) = command_line.json("requeue", CHATS, str(DEAL_ID))

    assert row == {"id": str(DEAL_ID), "requeued": True, "reason": None}
    assert command_line.row(PROVISION_ID).schedule.attempts == 0


def test_json_is_json_also_when_nothing_is_there(command_line: CommandLine) -> None:
    assert json.loads(command_line.run("list", CHATS, "--json").stdout) == []
