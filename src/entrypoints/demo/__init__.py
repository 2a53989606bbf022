"""``messenger-jobs demo``: stuck deal chats become ready before one's eyes, on a server of its own."""
