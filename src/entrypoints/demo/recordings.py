"""The recordings of the demo: every way in which a recording can be stuck, and how each is expected to end."""

from __future__ import annotations

from typing import Final, LiteralString

from attrs import frozen


@frozen(kw_only=True)
class RecordingScenario:
    """``share`` of a thousand recordings, and how each of them is expected to end.

    ``ends`` and ``finalization`` are its status and that of its finalize row, ``looked_at`` says whether storage is
    asked for it, ``events`` and ``hints`` count what other services and connected clients are told of it.
    """

    name: str
    story: str
    share: int
    ends: str
    finalization: str = "Done"
    looked_at: bool = False
    events: int = 0
    hints: int = 0


def _finished_late(name: str, story: str, share: int) -> RecordingScenario:
    return RecordingScenario(
        name=name, story=story, share=share, ends="Available", looked_at=True, events=1, hints=1
    )


def _lost(name: str, story: str, share: int) -> RecordingScenario:
    return RecordingScenario(name=name, story=story, share=share, ends="Failed", looked_at=True, hints=1)


SCENARIOS: Final = (
    _finished_late("lost callback", "its callback was lost", 400),
    _finished_late("recorder died", "its recorder died", 100),
    RecordingScenario(
        name="lost event", story="nobody was told of it", share=150, ends="Available", events=1, hints=1
    ),
    RecordingScenario(
        name="callback won", story="it was announced", share=50, ends="Available", events=1, hints=1
    ),
    _lost("no file", "there is no file", 120),
    _lost("empty file", "its file is empty", 50),
    RecordingScenario(
        name="unknown type",
        story="of an unknown type",
        share=50,
        ends="Uploading",
        finalization="Quarantined",
        looked_at=True,
    ),
    RecordingScenario(
        name="ended lately",
        story="the call just ended",
        share=50,
        ends="Uploading",
        finalization="Pending",
    ),
    RecordingScenario(
        name="goes on", story="the call goes on", share=30, ends="Recording", finalization="Pending"
    ),
)

SEED: Final[tuple[LiteralString, ...]] = (
    "create table demo.recordings (id uuid primary key default gen_random_uuid(), scenario text, number int)",
    """
    insert into demo.recordings (scenario, number)
    select scenario, number from unnest(%(names)s::text[], %(counts)s::int[]) as shares (scenario, recordings),
        lateral generate_series(1, recordings) as number
    """,
    """
    insert into messenger.call_recordings (id, session_kind, session_id, session_ended_at, media_type, status, trigger,
        object_key, started_at, ended_at, created_at, updated_at)
    select id, case number % 4 when 0 then 'Conference' else 'Direct' end, gen_random_uuid(), ended_at, 'Audio',
        case when scenario in ('recorder died', 'goes on') then 'Recording' else 'Uploading' end,
        'Manual', 'calls/' || id || '.wav', coalesce(ended_at, now()) - interval '1 second',
        case when scenario <> 'recorder died' then ended_at end, now() - interval '1 hour', now() - interval '1 hour'
    from demo.recordings, lateral (
        select case scenario when 'goes on' then null when 'ended lately' then now() - interval '1 minute'
            else now() - interval '1 hour' end as ended_at
    ) as call
    """,
    """
    update messenger.call_recordings r set status = 'Available', available_at = now() - interval '50 minutes',
        file_id = gen_random_uuid(), size_bytes = 8044, duration_seconds = 1, format = 'Wav'
    from demo.recordings d where d.id = r.id and scenario in ('lost event', 'callback won')
    """,
    """
    insert into messenger.recording_finalize_attempts (id, recording_id, session_kind, session_id, next_attempt_at,
        created_at, updated_at)
    select gen_random_uuid(), r.id, session_kind, session_id, now() - interval '1 hour' * random(),
        now() - interval '1 hour', now() - interval '1 hour'
    from demo.recordings join messenger.call_recordings r using (id)
    """,
    """
    insert into messenger.outbox_messages (event_id, topic, message_key, aggregate_type, aggregate_id, event_type,
        contract_version, payload, dedupe_key, occurred_at)
    select gen_random_uuid(), 'pin.messenger.call-recording-available.v1', session_id::text, 'CallRecording',
        r.id::text, 'RecordingAvailable', 1, jsonb_build_object('recordingId', r.id, 'fileId', file_id),
        'call-recording-available:' || r.id, available_at
    from demo.recordings join messenger.call_recordings r using (id) where scenario = 'callback won'
    """,
    """
    insert into messenger.realtime_outbox (id, kind, session_kind, session_id, reference_id, created_at)
    select gen_random_uuid(), 'RecordingAvailable', session_kind, session_id, r.id, available_at
    from demo.recordings join messenger.call_recordings r using (id) where scenario = 'callback won'
    """,
    "analyze",
)

FILES: Final[LiteralString] = """
    select object_key, scenario from demo.recordings join messenger.call_recordings using (id)
    where scenario in ('lost callback', 'recorder died', 'empty file', 'unknown type')
"""
"""What is to be put into the bucket."""

TOTAL: Final[LiteralString] = (
    "select count(*)::int from demo.recordings where scenario not in ('ended lately', 'goes on')"
)

PROGRESS: Final[LiteralString] = """
    select count(*)::int from demo.recordings d
        join messenger.recording_finalize_attempts e on e.recording_id = d.id
    where e.status <> 'Pending'
"""
"""How many of the recordings that the worker is to finish are finished."""

NEED_NO_STORAGE: Final[LiteralString] = """
    select count(*)::int from demo.recordings d
        join messenger.recording_finalize_attempts e on e.recording_id = d.id
    where scenario in ('lost event', 'callback won') and e.status = 'Pending'
"""
"""How many are unfinished although their files need not be looked at."""

HARM: Final[LiteralString] = """
    select count(*) filter (where r.status = 'Failed')::int as failed, sum(e.attempts)::int as attempts
    from messenger.call_recordings r join messenger.recording_finalize_attempts e on e.recording_id = r.id
"""
"""What the missing bucket must not have done."""

RESULT: Final[LiteralString] = """
    select scenario, r.status, e.status as finalization, count(*)::int as recordings,
        max(e.attempts) as most_attempts, count(o.id)::int as events, sum(hints.number)::int as hints
    from demo.recordings d join messenger.call_recordings r using (id)
        join messenger.recording_finalize_attempts e on e.recording_id = r.id
        left join messenger.outbox_messages o on o.dedupe_key = 'call-recording-available:' || r.id,
        lateral (select count(*) as number from messenger.realtime_outbox n where n.reference_id = r.id) as hints
    group by scenario, r.status, e.status order by scenario
"""


def counts(recordings: int) -> dict[str, int]:
    """How many recordings each scenario gets of ``recordings``, at least one."""
    return {scenario.name: max(1, recordings * scenario.share // 1000) for scenario in SCENARIOS}
