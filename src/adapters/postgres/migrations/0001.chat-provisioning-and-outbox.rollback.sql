drop table messenger.outbox_messages;
drop table messenger.deal_chat_provision_members;
drop table messenger.deal_chat_provisions;
drop table messenger.chat_events;
drop table messenger.participants;
drop table messenger.chats;
