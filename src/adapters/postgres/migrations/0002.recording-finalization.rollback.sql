drop table messenger.realtime_outbox;
drop table messenger.recording_finalize_attempts;
drop table messenger.call_recordings;
