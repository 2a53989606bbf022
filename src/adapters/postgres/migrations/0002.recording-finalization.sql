-- Recordings of calls, the intents to finish them, and the hints for connected clients.
-- depends: 0001.chat-provisioning-and-outbox

-- The binary is never here (INV-REC-6): a reference to it and what is known about it.
create table messenger.call_recordings (
    id               uuid         not null constraint pk_call_recordings primary key,
    session_kind     varchar(12)  not null constraint ck_rec_session_kind check (session_kind in ('Direct', 'Conference')),
    session_id       uuid         not null,
    session_ended_at timestamptz  null,
    chat_id          uuid         null,
    deal_id          uuid         null,
    tenant_id        uuid         null,
    media_type       varchar(8)   not null constraint ck_rec_media_type check (media_type in ('Audio', 'Video')),
    status           varchar(16)  not null default 'Pending'
        constraint ck_rec_status check (status in ('Pending', 'Recording', 'Uploading', 'Available', 'Failed')),
    trigger          varchar(32)  not null,
    object_key       varchar(512) not null constraint ck_rec_object_key check (object_key <> ''),
    file_id          uuid         null,
    size_bytes       bigint       null constraint ck_rec_size check (size_bytes > 0),
    duration_seconds integer      null constraint ck_rec_duration check (duration_seconds >= 0),
    format           varchar(8)   null
        constraint ck_rec_format check (format in ('Mp4', 'WebM', 'Ogg', 'Mp3', 'Wav', 'M4a')),
    failure_reason   varchar(64)  null,
    started_at       timestamptz  not null,
    ended_at         timestamptz  null,
    available_at     timestamptz  null,
    created_at       timestamptz  not null,
    updated_at       timestamptz  not null,
    version          bigint       not null default 0 constraint ck_rec_version check (version >= 0),
    -- INV-REC-5
    constraint ck_rec_available check (
        status <> 'Available'
        or (file_id is not null and size_bytes is not null and duration_seconds is not null
            and format is not null and available_at is not null)
    ),
    constraint ck_rec_failed check (status <> 'Failed' or failure_reason is not null)
);

create index ix_recording_active on messenger.call_recordings (session_id)
    where status in ('Pending', 'Recording', 'Uploading');

-- No foreign key to the recording: a row whose recording is missing is counted and quarantined, so that it is seen.
create table messenger.recording_finalize_attempts (
    id              uuid         not null constraint pk_recording_finalize_attempts primary key,
    recording_id    uuid         not null constraint ux_rfa_recording unique,
    session_kind    varchar(12)  not null constraint ck_rfa_session_kind check (session_kind in ('Direct', 'Conference')),
    session_id      uuid         not null,
    status          varchar(16)  not null default 'Pending'
        constraint ck_rfa_status check (status in ('Pending', 'Done', 'Quarantined')),
    attempts        integer      not null default 0 constraint ck_rfa_attempts check (attempts >= 0),
    next_attempt_at timestamptz  not null,
    last_error      varchar(512) null,
    created_at      timestamptz  not null,
    updated_at      timestamptz  not null,
    version         bigint       not null default 0 constraint ck_rfa_version check (version >= 0)
);

-- Time first: rows whose attempts are used up are 'Quarantined' and not in it.
create index ix_rfa_due on messenger.recording_finalize_attempts (next_attempt_at, id) where status = 'Pending';

create index ix_rfa_quarantined on messenger.recording_finalize_attempts (created_at) where status = 'Quarantined';

create table messenger.realtime_outbox (
    id            uuid        not null constraint pk_realtime_outbox primary key,
    kind          varchar(32) not null
        constraint ck_realtime_kind check (kind in ('RecordingAvailable', 'RecordingFailed')),
    session_kind  varchar(12) not null
        constraint ck_realtime_session_kind check (session_kind in ('Direct', 'Conference')),
    session_id    uuid        not null,
    reference_id  uuid        not null,
    created_at    timestamptz not null,
    dispatched_at timestamptz null
);

create index ix_realtime_undispatched on messenger.realtime_outbox (created_at) where dispatched_at is null;
