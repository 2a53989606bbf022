-- What each group of roles.sql may do, and nothing else. After every migration, by the owner of the tables
-- (messenger_migrate) or a superuser; harmless when repeated.
--
-- Whole tables may be read; what may be written is named by column, so that not even a stolen account of a worker can
-- rename a chat, move a recording to another object, or rewrite an event that waits to be published.

begin;

revoke all on all tables in schema messenger from messenger_worker, messenger_readonly, messenger_operator;
grant usage on schema messenger to messenger_worker, messenger_readonly, messenger_operator;

-- The worker: both jobs, the outbox relay, the consumer of created deals; and, since the runbooks' commands are run
-- where it runs, looking at everything.

grant select on all tables in schema messenger to messenger_worker;

grant insert, update (status, chat_id, attempts, next_attempt_at, last_error, updated_at, version)
    on messenger.deal_chat_provisions to messenger_worker;
grant insert on messenger.deal_chat_provision_members to messenger_worker;
-- To hold a chat as it was seen until the commit (FOR SHARE), PostgreSQL demands a column that may be updated.
grant insert, update (version) on messenger.chats to messenger_worker;
grant insert, update (role, left_at) on messenger.participants to messenger_worker;
grant insert on messenger.chat_events to messenger_worker;

grant update (status, file_id, size_bytes, duration_seconds, format, failure_reason, ended_at, available_at,
    updated_at, version) on messenger.call_recordings to messenger_worker;
grant insert, update (status, attempts, next_attempt_at, last_error, updated_at, version)
    on messenger.recording_finalize_attempts to messenger_worker;
grant insert on messenger.realtime_outbox to messenger_worker;

grant insert, delete,
    update (published_at, published_partition, published_offset, attempts, last_error, dead_at)
    on messenger.outbox_messages to messenger_worker;

-- Looking only: status, list, show, explain, audit, outbox list. This includes the titles of chats.

grant select on all tables in schema messenger to messenger_readonly;

-- Letting rows start over: requeue, outbox requeue; explain too, which tries the row's lock. What it may look at, it
-- has from messenger_readonly.

grant update (attempts, next_attempt_at, version) on messenger.deal_chat_provisions to messenger_operator;
grant update (status, attempts, next_attempt_at, last_error, updated_at, version)
    on messenger.recording_finalize_attempts to messenger_operator;
grant update (attempts, last_error, dead_at) on messenger.outbox_messages to messenger_operator;

commit;
