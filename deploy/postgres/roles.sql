-- The groups that may do something in the schema messenger. Once for a server, before the first migration, by a
-- superuser or whoever may create roles and owns the database; harmless when repeated.
--
-- They cannot log in. Accounts, their passwords and their certificates are the host's own business:
--
--     create role worker_7 login password '...' in role messenger_worker;
--     create role migrator login password '...' in role messenger_migrate;
--     alter role migrator set role messenger_migrate;  -- so that the tables belong to the group
--
-- What each group may do stands in grants.sql.

do $$
declare
    name text;
begin
    foreach name in array array['messenger_migrate', 'messenger_worker', 'messenger_readonly', 'messenger_operator'] loop
        if not exists (select from pg_roles where rolname = name) then
            execute format('create role %I nologin', name);
        end if;
    end loop;
    grant messenger_readonly to messenger_operator;
    -- Migrations create the schema; whoever creates it owns it and everything in it.
    execute format('grant create on database %I to messenger_migrate', current_database());
end
$$;

-- With this, `status` shows from where the lock is held, and not only by which process. It also shows the running
-- statements of every account of the server, so it is for the database's own administrators to decide:
-- grant pg_read_all_stats to messenger_readonly;
