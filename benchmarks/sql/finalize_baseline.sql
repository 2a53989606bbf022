-- The work of one recording as two server-side functions, one for each of its transactions: what the server can do when
-- no client is in the way. bench.finalize_queue numbers the rows, so that picking one costs a look-up and never a wait.

create schema if not exists bench;

drop table if exists bench.finalize_queue;
create table bench.finalize_queue (number bigint primary key, recording_id uuid not null, entry_id uuid not null);

create or replace procedure bench.fill_finalize_queue(recordings bigint) language sql as
$$
    truncate messenger.outbox_messages, messenger.realtime_outbox, messenger.recording_finalize_attempts,
        messenger.call_recordings, bench.finalize_queue;

    insert into bench.finalize_queue
    select n, gen_random_uuid(), gen_random_uuid() from generate_series(1, recordings) as n;

    insert into messenger.call_recordings
        (id, session_kind, session_id, session_ended_at, chat_id, deal_id, media_type, status, trigger, object_key,
        started_at, ended_at, created_at, updated_at)
    select recording_id, 'Direct', gen_random_uuid(), now() - interval '1 hour', gen_random_uuid(), gen_random_uuid(),
        'Video', 'Uploading', 'Manual', 'calls/' || recording_id || '.webm', now() - interval '2 hours',
        now() - interval '1 hour', now() - interval '2 hours', now() - interval '1 hour'
    from bench.finalize_queue;

    insert into messenger.recording_finalize_attempts
        (id, recording_id, session_kind, session_id, next_attempt_at, created_at, updated_at)
    select q.entry_id, r.id, r.session_kind, r.session_id, now() - interval '1 hour' + q.number * interval '1 microsecond',
        now() - interval '1 hour', now() - interval '1 hour'
    from bench.finalize_queue q join messenger.call_recordings r on r.id = q.recording_id;

    drop sequence if exists bench.next_finalize;
    create sequence bench.next_finalize cache 1;
$$;

create or replace function bench.claim_next_finalize() returns uuid language plpgsql as
$$
declare
    entry messenger.recording_finalize_attempts;
    moment timestamptz := clock_timestamp();
begin
    select e.* into entry
    from bench.finalize_queue q join messenger.recording_finalize_attempts e on e.id = q.entry_id
    where q.number = (select nextval('bench.next_finalize')) and e.status = 'Pending' and e.next_attempt_at <= moment
    for no key update of e skip locked;
    if not found then
        raise exception 'the queue is empty';
    end if;
    update messenger.recording_finalize_attempts
    set attempts = entry.attempts + 1, next_attempt_at = moment + interval '1 minute', updated_at = moment,
        version = entry.version + 1
    where id = entry.id;
    return entry.id;
end
$$;

create or replace function bench.settle_finalize(claimed uuid) returns void language plpgsql as
$$
declare
    entry messenger.recording_finalize_attempts;
    recording messenger.call_recordings;
    event uuid := gen_random_uuid();
    moment timestamptz := clock_timestamp();
begin
    select e.* into entry from messenger.recording_finalize_attempts e where e.id = claimed for no key update;
    select r.* into recording from messenger.call_recordings r
    where r.id = entry.recording_id and r.status in ('Recording', 'Uploading') for no key update;

    update messenger.call_recordings
    set status = 'Available', file_id = event, size_bytes = 4096, duration_seconds = 3600, format = 'WebM',
        available_at = moment, updated_at = moment, version = recording.version + 1
    where id = recording.id;

    insert into messenger.outbox_messages
        (event_id, topic, message_key, aggregate_type, aggregate_id, event_type, contract_version, payload, headers,
        dedupe_key, occurred_at)
    values (event, 'pin.messenger.call-recording-available.v1', recording.session_id::text, 'CallRecording',
        recording.session_id::text, 'CallRecordingAvailable', 1,
        jsonb_build_object('recordingId', recording.id, 'sessionKind', 'Direct', 'sessionId', recording.session_id,
            'chatId', recording.chat_id, 'dealId', recording.deal_id, 'mediaType', 'Video', 'fileId', event,
            'format', 'WebM', 'durationSeconds', 3600, 'sizeBytes', 4096, 'trigger', 'Manual',
            'startedAt', recording.started_at, 'endedAt', recording.ended_at, 'availableAt', moment),
        jsonb_build_object('event-id', event, 'event-type', 'CallRecordingAvailable', 'contract-version', '1',
            'correlation-id', event),
        'call-recording-available:' || recording.id, moment);

    insert into messenger.realtime_outbox (id, kind, session_kind, session_id, reference_id, created_at)
    values (gen_random_uuid(), 'RecordingAvailable', 'Direct', recording.session_id, recording.id, moment);

    update messenger.recording_finalize_attempts
    set status = 'Done', last_error = null, updated_at = moment, version = entry.version + 1
    where id = entry.id;
end
$$;
