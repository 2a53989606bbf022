-- Chats of deals, the intents to provision them, and the transactional outbox.
-- depends:

create schema if not exists messenger;

-- Vocabularies of kind and status belong to the messenger's chat; this package writes 'Deal' and 'Active' only.
create table messenger.chats (
    id             uuid         not null constraint pk_chats primary key,
    kind           varchar(16)  not null constraint ck_chats_kind check (kind <> ''),
    status         varchar(16)  not null constraint ck_chats_status check (status <> ''),
    deal_id        uuid         null constraint ux_chats_deal_id unique,
    title          varchar(256) not null,
    project_id     uuid         null,
    deal_tenant_id uuid         null,
    created_at     timestamptz  not null,
    updated_at     timestamptz  not null,
    version        bigint       not null default 0 constraint ck_chats_version check (version >= 0),
    constraint ck_chats_deal check (kind <> 'Deal' or (deal_id is not null and title <> ''))
);

create table messenger.participants (
    id        uuid        not null constraint pk_participants primary key,
    chat_id   uuid        not null constraint fk_participants_chat references messenger.chats (id),
    user_id   uuid        not null,
    role      varchar(32) not null constraint ck_participants_role check (role <> ''),
    joined_at timestamptz not null,
    left_at   timestamptz null,
    constraint ux_participants_chat_user unique (chat_id, user_id)
);

create table messenger.chat_events (
    id          uuid        not null constraint pk_chat_events primary key,
    chat_id     uuid        not null constraint fk_chat_events_chat references messenger.chats (id),
    type        varchar(64) not null constraint ck_chat_events_type check (type <> ''),
    actor       varchar(64) not null constraint ck_chat_events_actor check (actor <> ''),
    occurred_at timestamptz not null,
    data        jsonb       not null default '{}'::jsonb constraint ck_chat_events_data check (jsonb_typeof(data) = 'object')
);

create index ix_chat_events_chat on messenger.chat_events (chat_id, occurred_at);

-- A chat tells its provisioning once, whoever tries to tell it again.
create unique index ux_chat_events_deal_chat_provisioned
    on messenger.chat_events (chat_id) where type = 'DealChatProvisioned';

-- Empty titles and missing members are data that an attempt refuses, so that they are counted and seen: no check here.
create table messenger.deal_chat_provisions (
    id              uuid         not null constraint pk_deal_chat_provisions primary key,
    deal_id         uuid         not null constraint ux_dcp_deal unique,
    chat_id         uuid         null constraint fk_dcp_chat references messenger.chats (id),
    title           varchar(256) not null,
    project_id      uuid         null,
    deal_tenant_id  uuid         null,
    status          varchar(16)  not null default 'Provisioning'
        constraint ck_dcp_status check (status in ('Provisioning', 'Ready', 'Failed')),
    attempts        integer      not null default 0 constraint ck_dcp_attempts check (attempts >= 0),
    next_attempt_at timestamptz  not null,
    last_error      varchar(512) null,
    created_at      timestamptz  not null,
    updated_at      timestamptz  not null,
    version         bigint       not null default 0 constraint ck_dcp_version check (version >= 0),
    constraint ck_dcp_ready check (status <> 'Ready' or chat_id is not null)
)
-- 'Ready' rows pile up and rest, while the few others change: by the usual fifth of the table, a million entries of
-- rows that are done would stand in ix_dcp_due before it is cleaned, ten thousand pages for the first claim of each cycle.
with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.01);

create index ix_dcp_tenant on messenger.deal_chat_provisions (deal_tenant_id);

-- Led by attempts, so that a claim reads one ordered run of entries per allowed attempt count and never meets the
-- rows whose attempts are used up; 'Ready' rows, nearly all of the table, are not in it.
create index ix_dcp_due on messenger.deal_chat_provisions (attempts, next_attempt_at, id) where status <> 'Ready';

create table messenger.deal_chat_provision_members (
    provision_id uuid        not null
        constraint fk_dcp_members_provision references messenger.deal_chat_provisions (id) on delete cascade,
    user_id      uuid        not null,
    role         varchar(32) not null constraint ck_dcp_members_role check (role <> ''),
    constraint pk_deal_chat_provision_members primary key (provision_id, user_id)
);

create table messenger.outbox_messages (
    id                  bigint       not null generated always as identity constraint pk_outbox_messages primary key,
    event_id            uuid         not null constraint ux_outbox_event_id unique,
    topic               varchar(249) not null constraint ck_outbox_topic check (topic <> ''),
    message_key         varchar(256) not null,
    aggregate_type      varchar(64)  not null constraint ck_outbox_aggregate_type check (aggregate_type <> ''),
    aggregate_id        varchar(64)  not null constraint ck_outbox_aggregate_id check (aggregate_id <> ''),
    event_type          varchar(64)  not null constraint ck_outbox_event_type check (event_type <> ''),
    contract_version    integer      not null constraint ck_outbox_contract_version check (contract_version >= 1),
    payload             jsonb        not null constraint ck_outbox_payload check (jsonb_typeof(payload) = 'object'),
    headers             jsonb        not null default '{}'::jsonb
        constraint ck_outbox_headers check (jsonb_typeof(headers) = 'object'),
    dedupe_key          varchar(256) null,
    occurred_at         timestamptz  not null,
    created_at          timestamptz  not null default now(),
    published_at        timestamptz  null,
    published_partition integer      null,
    published_offset    bigint       null,
    attempts            integer      not null default 0 constraint ck_outbox_attempts check (attempts >= 0),
    last_error          varchar(512) null,
    dead_at             timestamptz  null,
    constraint ck_outbox_receipt check (
        published_at is not null or (published_partition is null and published_offset is null)
    ),
    constraint ck_outbox_end check (published_at is null or dead_at is null)
);

create unique index ux_outbox_dedupe_key on messenger.outbox_messages (dedupe_key) where dedupe_key is not null;

-- What the relay reads, in commit-independent id order.
create index ix_outbox_unpublished on messenger.outbox_messages (id) where published_at is null and dead_at is null;
