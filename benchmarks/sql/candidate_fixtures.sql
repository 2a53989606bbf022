-- Tables for measuring the candidate query: fills messenger.deal_chat_provisions, whatever number of rows of each sort.
-- Everything is relative to bench.as_of(), so that repeated runs measure the same rows.
--   select bench.fill_provisions(ready => 5000000, due => 100);
--   select bench.fill_provisions(due => 1000000, levels => 8);
--   select bench.fill_provisions(poison => 100000, due => 100);

create schema if not exists bench;

create or replace function bench.as_of() returns timestamptz language sql immutable as
$$ select timestamptz '2026-01-01 12:00:00+00' $$;

create or replace procedure bench.empty_provisions() language sql as
$$
    truncate messenger.outbox_messages, messenger.chat_events, messenger.participants,
        messenger.deal_chat_provision_members, messenger.deal_chat_provisions, messenger.chats;
$$;

-- levels: due rows are spread over attempts 0 .. levels - 1. Poison rows are left as the software leaves them: 'Failed',
-- attempts at the limit of 8, next_attempt_at in the past. young rows are 'Provisioning' and not stuck yet.
create or replace function bench.fill_provisions(
    ready bigint default 0, due bigint default 0, poison bigint default 0, waiting bigint default 0,
    young bigint default 0, levels integer default 1
) returns void language plpgsql as
$$
declare
    shared_chat uuid := gen_random_uuid();
begin
    insert into messenger.chats (id, kind, status, deal_id, title, created_at, updated_at)
    values (shared_chat, 'Deal', 'Active', gen_random_uuid(), 'shared', bench.as_of(), bench.as_of());

    insert into messenger.deal_chat_provisions
        (id, deal_id, chat_id, title, deal_tenant_id, status, attempts, next_attempt_at, created_at, updated_at)
    select gen_random_uuid(), gen_random_uuid(), shared_chat, 'Deal of the year, number ' || n, null,
           'Ready', 1, bench.as_of() - n * interval '1 second', bench.as_of() - n * interval '1 second',
           bench.as_of() - n * interval '1 second'
    from generate_series(1, ready) as n;

    insert into messenger.deal_chat_provisions
        (id, deal_id, title, project_id, status, attempts, next_attempt_at, last_error, created_at, updated_at)
    select gen_random_uuid(), gen_random_uuid(), 'Deal of the year, number ' || n, gen_random_uuid(),
           'Failed', 8, bench.as_of() - n * interval '20 seconds' - interval '1 day', 'ProvisionGuard:NO_MEMBERS',
           bench.as_of() - n * interval '20 seconds' - interval '2 days',
           bench.as_of() - n * interval '20 seconds' - interval '1 day'
    from generate_series(1, poison) as n;

    insert into messenger.deal_chat_provisions
        (id, deal_id, title, project_id, status, attempts, next_attempt_at, last_error, created_at, updated_at)
    select gen_random_uuid(), gen_random_uuid(), 'Deal of the year, number ' || n, gen_random_uuid(),
           case when n % 3 = 0 or n % levels > 0 then 'Failed' else 'Provisioning' end, n % levels,
           bench.as_of() - random() * interval '1 hour', case when n % levels > 0 then 'ProvisionGuard:NO_MEMBERS' end,
           bench.as_of() - interval '3 hours', bench.as_of() - interval '1 hour 10 minutes'
    from generate_series(1, due) as n;

    insert into messenger.deal_chat_provisions
        (id, deal_id, title, project_id, status, attempts, next_attempt_at, last_error, created_at, updated_at)
    select gen_random_uuid(), gen_random_uuid(), 'Deal of the year, number ' || n, gen_random_uuid(),
           'Failed', 1 + n % 7, bench.as_of() + random() * interval '15 minutes', 'ProvisionGuard:NO_MEMBERS',
           bench.as_of() - interval '3 hours', bench.as_of() - interval '1 minute'
    from generate_series(1, waiting) as n;

    -- The delay until a row counts as stuck belongs into next_attempt_at; these rows' writer did not know.
    insert into messenger.deal_chat_provisions
        (id, deal_id, title, project_id, status, attempts, next_attempt_at, created_at, updated_at)
    select gen_random_uuid(), gen_random_uuid(), 'Deal of the year, number ' || n, gen_random_uuid(),
           'Provisioning', 0, bench.as_of() - interval '1 minute', bench.as_of() - interval '1 minute',
           bench.as_of() - interval '1 minute'
    from generate_series(1, young) as n;
end
$$;
