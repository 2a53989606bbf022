"""What must never happen, done by hand: ways to break each invariant of the audit, and no other one.

The parameters are the ids of one ready provision, its deal and its chat, and of recordings: one that is available and
announced, and one that was lost.
"""

from __future__ import annotations

from typing import Final, LiteralString

from attrs import frozen


@frozen
class Breach:
    """The ``claim`` that the statements break, and how, in words."""

    claim: str
    how: str
    statements: tuple[LiteralString, ...]


# A message once more, with an event id of its own.
_COPY: Final[LiteralString] = """
insert into messenger.outbox_messages (event_id, topic, message_key, aggregate_type, aggregate_id, event_type,
    contract_version, payload, headers, occurred_at)
select id, topic, message_key, aggregate_type, aggregate_id, event_type, contract_version, {payload},
    jsonb_set(headers, '{event-id}', to_jsonb(id)), now()
from (select gen_random_uuid() as id, message.* from messenger.outbox_messages message) as copy (id, number, event_id,
    topic, message_key, aggregate_type, aggregate_id, event_type, contract_version, payload, headers)
where {of}
"""

BREACHES: Final = (
    Breach(
        "a deal has at most one chat",
        "second chat",
        (
            "alter table messenger.chats drop constraint ux_chats_deal_id",
            """
            insert into messenger.chats (id, kind, status, deal_id, title, created_at, updated_at)
            select gen_random_uuid(), kind, status, deal_id, title, now(), now()
            from messenger.chats where id = %(chat)s
            """,
        ),
    ),
    Breach(
        "a chat tells of its provisioning at most once",
        "second entry",
        (
            "drop index messenger.ux_chat_events_deal_chat_provisioned",
            """
            insert into messenger.chat_events (id, chat_id, type, actor, occurred_at)
            select gen_random_uuid(), chat_id, type, actor, occurred_at
            from messenger.chat_events where chat_id = %(chat)s
            """,
        ),
    ),
    Breach(
        "a ready provision has its deal's chat",
        "another deal's chat",
        ("update messenger.chats set deal_id = gen_random_uuid() where id = %(chat)s",),
    ),
    Breach(
        "a ready provision has its deal's chat",
        "no chat",
        (
            "delete from messenger.deal_chat_provision_members where provision_id = %(provision)s",
            "delete from messenger.chats where id = %(chat)s",
        ),
    ),
    Breach(
        "every member of a ready provision is, or was, in its chat",
        "one was forgotten",
        (
            """
            delete from messenger.participants where user_id = (
                select min(user_id::text)::uuid from messenger.participants where chat_id = %(chat)s
            )
            """,
        ),
    ),
    Breach(
        "a ready provision has told so, once",
        "untold",
        ("delete from messenger.outbox_messages where aggregate_id = %(deal)s",),
    ),
    Breach(
        "a ready provision has told so, once",
        "told twice",
        (_COPY.replace("{payload}", "payload").replace("{of}", "aggregate_id = %(deal)s"),),
    ),
    Breach(
        "a provision whose attempts are used up has told so",
        "untold",
        ("delete from messenger.outbox_messages where payload->>'status' = 'Failed'",),
    ),
    Breach(
        "whoever was told of a ready chat has one",
        "moved out of ready",
        (
            "update messenger.deal_chat_provisions set status = 'Failed', attempts = 0 where id = %(provision)s",
        ),
    ),
    Breach(
        "whoever was told of a failed chat has a provision",
        "it is gone",
        (
            "delete from messenger.outbox_messages where aggregate_id = %(deal)s",
            "delete from messenger.deal_chat_provisions where status = 'Failed'",
            "update messenger.deal_chat_provisions set updated_at = now() - interval '2 days' where id = %(provision)s",
        ),
    ),
    Breach(
        "nobody is told of a failure after the chat is ready",
        "told late",
        (
            _COPY.replace("{payload}", """payload || '{"status": "Failed"}'""").replace(
                "{of}", "aggregate_id = %(deal)s"
            ),
        ),
    ),
    Breach(
        "no provision was tried more often than allowed",
        "once more",
        ("update messenger.deal_chat_provisions set attempts = 3 where id = %(provision)s",),
    ),
    Breach(
        "a provision's last error is a class and a code",
        "a name",
        (
            """
            update messenger.deal_chat_provisions set last_error = 'ValueError: no chat for Ivanov'
            where id = %(provision)s
            """,
        ),
    ),
    Breach(
        "an available recording is announced, or will be",
        "closed",
        ("delete from messenger.outbox_messages where payload->>'recordingId' = %(found)s",),
    ),
    Breach(
        "an available recording is announced, or will be",
        "never opened",
        (
            "delete from messenger.outbox_messages where payload->>'recordingId' = %(found)s",
            "delete from messenger.recording_finalize_attempts where recording_id::text = %(found)s",
        ),
    ),
    Breach(
        "a recording is announced at most once",
        "twice",
        (_COPY.replace("{payload}", "payload").replace("{of}", "payload->>'recordingId' = %(found)s"),),
    ),
    Breach(
        "an announced recording is available, with that very file",
        "another file",
        ("update messenger.call_recordings set file_id = gen_random_uuid() where id::text = %(found)s",),
    ),
    Breach(
        "an announced recording is available, with that very file",
        "no longer available",
        (
            """
            update messenger.recording_finalize_attempts set status = 'Pending', next_attempt_at = now()
            where recording_id::text = %(found)s
            """,
            "update messenger.call_recordings set status = 'Uploading' where id::text = %(found)s",
        ),
    ),
    Breach(
        "an announced recording is available, with that very file",
        "it is gone",
        ("delete from messenger.call_recordings where id::text = %(found)s",),
    ),
    Breach(
        "clients were told of a lost recording, once, and only that",
        "untold",
        ("delete from messenger.realtime_outbox where reference_id::text = %(lost)s",),
    ),
    Breach(
        "clients were told of a lost recording, once, and only that",
        "told the contrary",
        (
            "update messenger.realtime_outbox set kind = 'RecordingAvailable' where reference_id::text = %(lost)s",
        ),
    ),
    Breach(
        "clients were not told twice of a recording",
        "twice",
        (
            """
            insert into messenger.realtime_outbox (id, kind, session_kind, session_id, reference_id, created_at)
            select gen_random_uuid(), kind, session_kind, session_id, reference_id, created_at
            from messenger.realtime_outbox where reference_id::text = %(found)s
            """,
        ),
    ),
    Breach(
        "a finalization that is done has a finished recording",
        "moved out of failed",
        ("update messenger.call_recordings set status = 'Uploading' where id::text = %(lost)s",),
    ),
    Breach(
        "no finished recording is left open for ten minutes",
        "left open",
        (
            """
            update messenger.recording_finalize_attempts
            set status = 'Pending', next_attempt_at = now() - interval '11 minutes' where recording_id::text = %(lost)s
            """,
            """
            update messenger.call_recordings set updated_at = now() - interval '11 minutes'
            where id::text = %(lost)s
            """,
        ),
    ),
    Breach(
        "no recording was looked for more often than allowed",
        "once more",
        (
            "update messenger.recording_finalize_attempts set attempts = 4 where recording_id::text = %(lost)s",
        ),
    ),
    Breach(
        "a finalization's last error is a class and a code",
        "an address",
        (
            """
            update messenger.recording_finalize_attempts set last_error = 'GET https://storage.example/calls'
            where recording_id::text = %(lost)s
            """,
        ),
    ),
    Breach(
        "a message says what its row says",
        "another event's id",
        (
            """
            update messenger.outbox_messages set headers = headers || '{"event-id": "2"}'
            where aggregate_id = %(deal)s
            """,
        ),
    ),
    Breach(
        "a message says what its row says",
        "another type",
        (
            """
            update messenger.outbox_messages set headers = headers || '{"event-type": "Other"}'
            where aggregate_id = %(deal)s
            """,
        ),
    ),
    Breach(
        "a message says what its row says",
        "another version",
        (
            """
            update messenger.outbox_messages set headers = headers || '{"contract-version": "2"}'
            where aggregate_id = %(deal)s
            """,
        ),
    ),
    Breach(
        "no message carries a URL",
        "in its payload",
        (
            """
            update messenger.outbox_messages set payload = payload || '{"file": "s3://calls/1.webm"}'
            where aggregate_id = %(deal)s
            """,
        ),
    ),
    Breach(
        "no message carries a URL",
        "in a header",
        (
            """
            update messenger.outbox_messages set headers = headers || '{"reply-to": "https://example/"}'
            where aggregate_id = %(deal)s
            """,
        ),
    ),
)
