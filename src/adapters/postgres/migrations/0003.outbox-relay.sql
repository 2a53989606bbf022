-- What the outbox relay and its operators read beside the unpublished messages.
-- depends: 0002.recording-finalization

-- Pruning takes the oldest published messages; without it every look for them would read the whole table.
create index ix_outbox_published on messenger.outbox_messages (published_at, id) where published_at is not null;

-- Parked messages stay until an operator acts, among millions that are published.
create index ix_outbox_dead on messenger.outbox_messages (id) where dead_at is not null;

-- Every message is inserted, marked and deleted: by the usual fifth of the table, a million entries of published
-- messages would stand in ix_outbox_unpublished before it is cleaned.
alter table messenger.outbox_messages
    set (autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.01);
