alter table messenger.outbox_messages reset (autovacuum_vacuum_scale_factor, autovacuum_analyze_scale_factor);
drop index messenger.ix_outbox_dead;
drop index messenger.ix_outbox_published;
