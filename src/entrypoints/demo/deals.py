"""The deals of the demo: every way in which a deal's chat can be stuck, and how each is expected to end."""

from __future__ import annotations

from typing import Final, LiteralString

from attrs import frozen

MAX_ATTEMPTS: Final = 4
"""The worker of the demo gives up earlier than a real one, so that giving up can be watched."""


@frozen(kw_only=True)
class DealScenario:
    """``share`` of a thousand deals; ``ends`` is the expected status; ``events`` the messages about each of them."""

    name: str
    story: str
    share: int
    ends: str
    events: int


SCENARIOS: Final = (
    DealScenario(name="stuck", story="the consumer died midway", share=300, ends="Ready", events=1),
    DealScenario(name="failed", story="the first attempts failed", share=400, ends="Ready", events=1),
    DealScenario(name="chat exists", story="a chat is there already", share=100, ends="Ready", events=1),
    DealScenario(name="members left", story="its members have left", share=80, ends="Ready", events=1),
    DealScenario(name="archived chat", story="its chat was archived", share=30, ends="Failed", events=1),
    DealScenario(name="no members", story="nobody is to be in it", share=30, ends="Failed", events=1),
    DealScenario(name="poison", story="given up by the retries", share=30, ends="Failed", events=1),
    DealScenario(name="in flight", story="in the consumer's hands", share=5, ends="Ready", events=1),
    DealScenario(name="fresh", story="created a moment ago", share=25, ends="Provisioning", events=0),
)

SEED: Final[tuple[LiteralString, ...]] = (
    "create schema demo",
    "create table demo.deals (deal_id uuid primary key default gen_random_uuid(), scenario text, number int)",
    """
    insert into demo.deals (scenario, number)
    select scenario, number from unnest(%(names)s::text[], %(counts)s::int[]) as shares (scenario, deals),
        lateral generate_series(1, deals) as number
    """,
    """
    insert into messenger.chats (id, kind, status, deal_id, title, created_at, updated_at)
    select gen_random_uuid(), 'Deal', case scenario when 'archived chat' then 'Archived' else 'Active' end,
        deal_id, 'Deal ' || number, now() - interval '2 hours', now() - interval '2 hours'
    from demo.deals where scenario in ('chat exists', 'members left', 'archived chat')
    """,
    """
    insert into messenger.deal_chat_provisions (id, deal_id, title, status, attempts, next_attempt_at, last_error,
        created_at, updated_at)
    select gen_random_uuid(), deal_id, 'Deal ' || number,
        case when scenario in ('stuck', 'in flight', 'fresh') then 'Provisioning' else 'Failed' end,
        case when scenario = 'poison' then %(max_attempts)s
            when scenario in ('archived chat', 'no members') then %(max_attempts)s - 2
            when scenario in ('stuck', 'in flight', 'fresh') then 0 else 1 + number %% 2 end,
        now() - interval '1 hour' * random(),
        case when scenario in ('stuck', 'in flight', 'fresh') then null
            when scenario = 'poison' then 'ProvisionGuard:NO_MEMBERS' else 'Database:UNAVAILABLE' end,
        now() - interval '2 hours',
        case scenario when 'fresh' then now() else now() - interval '1 hour' end
    from demo.deals
    """,
    """
    insert into messenger.deal_chat_provision_members (provision_id, user_id, role)
    select p.id, gen_random_uuid(), role
    from demo.deals join messenger.deal_chat_provisions p using (deal_id),
        unnest(array['Owner', 'Agent', 'Developer']) as role
    where scenario not in ('no members', 'poison')
    """,
    """
    insert into messenger.participants (id, chat_id, user_id, role, joined_at, left_at)
    select gen_random_uuid(), c.id, m.user_id, m.role, now() - interval '2 hours', now() - interval '1 hour'
    from demo.deals join messenger.chats c using (deal_id) join messenger.deal_chat_provisions p using (deal_id)
        join messenger.deal_chat_provision_members m on m.provision_id = p.id
    where scenario = 'members left'
    """,
    # Somebody who was invited: reconciliation must leave them in.
    """
    insert into messenger.participants (id, chat_id, user_id, role, joined_at)
    select gen_random_uuid(), c.id, gen_random_uuid(), 'Guest', now() - interval '1 hour'
    from demo.deals join messenger.chats c using (deal_id) where scenario in ('chat exists', 'members left')
    """,
    """
    insert into messenger.outbox_messages (event_id, topic, message_key, aggregate_type, aggregate_id, event_type,
        contract_version, payload, occurred_at)
    select gen_random_uuid(), 'pin.messenger.deal-chat-status-changed.v1', deal_id::text, 'DealChatProvision',
        deal_id::text, 'DealChatStatusChanged', 1,
        jsonb_build_object('dealId', deal_id, 'status', 'Failed', 'occurredAt', now()), now() - interval '1 hour'
    from demo.deals where scenario = 'poison'
    """,
    "analyze",
)

TOTAL: Final[LiteralString] = (
    "select count(*)::int from demo.deals where scenario not in ('in flight', 'fresh', 'poison')"
)

PROGRESS: Final[LiteralString] = """
    select count(*)::int from demo.deals join messenger.deal_chat_provisions p using (deal_id)
    where p.status = 'Ready' and scenario <> 'in flight'
        or p.attempts >= %(max_attempts)s and scenario <> 'poison'
"""
"""How many of the deals that the worker is to finish are finished."""

IN_FLIGHT: Final[LiteralString] = """
    select p.id from demo.deals join messenger.deal_chat_provisions p using (deal_id) where scenario = 'in flight'
"""

RESULT: Final[LiteralString] = """
    select scenario, p.status, count(*)::int as deals, count(c.id)::int as chats,
        sum((select count(*) from messenger.chat_events e where e.chat_id = c.id))::int as feed_entries,
        sum((select count(*) from messenger.outbox_messages o where o.aggregate_id = deal_id::text))::int as events
    from demo.deals join messenger.deal_chat_provisions p using (deal_id) left join messenger.chats c using (deal_id)
    group by scenario, p.status order by min(p.created_at), scenario
"""


def counts(deals: int) -> dict[str, int]:
    """How many deals each scenario gets of ``deals``, at least one."""
    return {scenario.name: max(1, deals * scenario.share // 1000) for scenario in SCENARIOS}
