-- The work of one row, as one server-side function: what the server can do when no client is in the way.
-- bench.queue numbers the rows, so that picking one costs a look-up and never a wait.

create schema if not exists bench;

drop table if exists bench.queue;
create table bench.queue (number bigint primary key, provision_id uuid not null, deal_id uuid not null);

-- finished: deals that are done, as they make up nearly all of a table in use.
create or replace procedure bench.fill_queue(deals bigint, finished bigint default 0) language sql as
$$
    truncate messenger.outbox_messages, messenger.chat_events, messenger.participants,
        messenger.deal_chat_provision_members, messenger.deal_chat_provisions, messenger.chats, bench.queue;

    with chat as (
        insert into messenger.chats (id, kind, status, deal_id, title, created_at, updated_at)
        select gen_random_uuid(), 'Deal', 'Active', gen_random_uuid(), 'Deal of last year, number ' || n,
            now() - interval '1 year', now() - interval '1 year'
        from generate_series(1, finished) as n
        returning *
    ), participant as (
        insert into messenger.participants (id, chat_id, user_id, role, joined_at)
        select gen_random_uuid(), id, gen_random_uuid(), 'Owner', created_at from chat
    )
    insert into messenger.deal_chat_provisions
        (id, deal_id, chat_id, title, status, attempts, next_attempt_at, created_at, updated_at)
    select gen_random_uuid(), deal_id, id, title, 'Ready', 1, created_at, created_at, created_at from chat;

    insert into bench.queue select n, gen_random_uuid(), gen_random_uuid() from generate_series(1, deals) as n;

    insert into messenger.deal_chat_provisions
        (id, deal_id, title, project_id, deal_tenant_id, status, attempts, next_attempt_at, created_at, updated_at)
    select provision_id, deal_id, 'Deal of the year, number ' || number, gen_random_uuid(), gen_random_uuid(), 'Failed', 1,
        now() - interval '1 hour' + number * interval '1 millisecond', now() - interval '3 hours',
        now() - interval '2 hours'
    from bench.queue;

    insert into messenger.deal_chat_provision_members (provision_id, user_id, role)
    select provision_id, gen_random_uuid(), role
    from bench.queue, unnest(array['Owner', 'Agent', 'Developer']) as role;

    drop sequence if exists bench.next;
    create sequence bench.next cache 1;
$$;

create or replace function bench.provision_next() returns uuid language plpgsql as
$$
declare
    provision messenger.deal_chat_provisions;
    chat messenger.chats;
    found_chat boolean;
    event uuid := gen_random_uuid();
    moment timestamptz := clock_timestamp();
begin
    select p.* into provision
    from bench.queue q join messenger.deal_chat_provisions p on p.id = q.provision_id
    where q.number = (select nextval('bench.next')) and p.status <> 'Ready' and p.attempts < 8
        and p.next_attempt_at <= moment and (p.status = 'Failed' or p.updated_at <= moment - interval '5 minutes')
    for no key update of p skip locked;
    if not found then
        raise exception 'the queue is empty';
    end if;

    select c.* into chat from messenger.chats c where c.deal_id = provision.deal_id;
    found_chat := found;
    if not found_chat then
        chat.id := gen_random_uuid();
        insert into messenger.chats
            (id, kind, status, deal_id, title, project_id, deal_tenant_id, created_at, updated_at)
        values (chat.id, 'Deal', 'Active', provision.deal_id, provision.title, provision.project_id,
            provision.deal_tenant_id, moment, moment);
        insert into messenger.chat_events (id, chat_id, type, actor, occurred_at, data)
        values (gen_random_uuid(), chat.id, 'DealChatProvisioned', 'System', moment,
            jsonb_build_object('dealId', provision.deal_id));
    end if;

    insert into messenger.participants as a (id, chat_id, user_id, role, joined_at)
    select gen_random_uuid(), chat.id, m.user_id, m.role, moment
    from messenger.deal_chat_provision_members m where m.provision_id = provision.id
    on conflict (chat_id, user_id) do update set left_at = null, role = excluded.role where a.left_at is not null;

    insert into messenger.outbox_messages
        (event_id, topic, message_key, aggregate_type, aggregate_id, event_type, contract_version, payload, headers,
        occurred_at)
    values (event, 'pin.messenger.deal-chat-status-changed.v1', provision.deal_id::text, 'DealChatProvision',
        provision.deal_id::text, 'DealChatStatusChanged', 1,
        jsonb_build_object('dealId', provision.deal_id, 'chatId', chat.id, 'status', 'Ready', 'occurredAt', moment),
        jsonb_build_object('event-id', event, 'event-type', 'DealChatStatusChanged', 'contract-version', '1',
            'correlation-id', event),
        moment);

    update messenger.deal_chat_provisions
    set status = 'Ready', chat_id = chat.id, attempts = provision.attempts + 1,
        next_attempt_at = moment + interval '2 minutes', last_error = null, updated_at = moment,
        version = provision.version + 1
    where id = provision.id and version = provision.version;
    return provision.id;
end
$$;
