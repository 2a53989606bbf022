"""Safety net for deal chats and call recordings that got stuck: periodic jobs, outbox relay, operator commands."""
