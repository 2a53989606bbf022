"""Generated values of the domain, small enough to collide and odd enough to surprise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar
from uuid import UUID

from hypothesis import strategies as st
from messenger_jobs.domain.backoff import BackoffPolicy
from messenger_jobs.domain.chat import ROLE_MAX_LENGTH, Chat, Member, Participant
from messenger_jobs.domain.deal_chat_provision import DealChatProvision, ProvisioningRules, ProvisionStatus
from messenger_jobs.domain.errors import AttemptError
from messenger_jobs.domain.provisioning import ProvisionSnapshot
from messenger_jobs.domain.retry_schedule import RetrySchedule

from tests.support.builders import CHAT_ID, NOW, a_chat, a_member, a_participant, a_provision, some_id

MICROSECOND: Final = timedelta(microseconds=1)

# Integers throughout: Hypothesis draws and shrinks them several times faster than dates, floats and expressions.
_MICROSECONDS_OF_A_CENTURY: Final = 100 * 365 * 86_400 * 10**6
Person = TypeVar("Person")

instants: st.SearchStrategy[datetime] = st.integers(min_value=0, max_value=_MICROSECONDS_OF_A_CENTURY).map(
    lambda number: datetime(2000, 1, 1, tzinfo=UTC) + number * MICROSECOND
)
near_now: st.SearchStrategy[datetime] = st.one_of(
    st.integers(min_value=-3, max_value=3).map(lambda number: NOW + number * MICROSECOND),
    st.integers(min_value=-900, max_value=900).map(lambda seconds: NOW + timedelta(seconds=seconds)),
)
delays: st.SearchStrategy[timedelta] = st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=365))
spreads: st.SearchStrategy[float] = st.floats(min_value=0.0, max_value=1.0, exclude_max=True)

_USER_IDS: Final = [some_id(number) for number in range(11, 17)]
_LEFT_AT: Final = NOW - timedelta(hours=1)


def _one_state_each(
    states: Callable[[UUID], Sequence[Person | None]],
) -> st.SearchStrategy[list[Person]]:
    """Everybody in one of their states, or absent: one draw per person, so that nobody has to be drawn again."""
    everybody = st.tuples(*(st.sampled_from(states(user_id)) for user_id in _USER_IDS))
    return everybody.map(lambda drawn: [person for person in drawn if person is not None])


distinct_members: st.SearchStrategy[list[Member]] = _one_state_each(
    lambda user_id: [None, None, a_member(user_id, "Buyer"), a_member(user_id, "Ж" * ROLE_MAX_LENGTH)]
)
participants: st.SearchStrategy[list[Participant]] = _one_state_each(
    lambda user_id: [
        None,
        a_participant(user_id, "Buyer"),
        a_participant(user_id, "Guest", joined_at=NOW - timedelta(days=2)),
        a_participant(user_id, "Buyer", left_at=_LEFT_AT),
        a_participant(user_id, "Guest", left_at=_LEFT_AT, joined_at=NOW - timedelta(days=2)),
    ]
)

error_parts: st.SearchStrategy[str] = st.from_regex(r"[A-Za-z0-9_.-]{1,40}", fullmatch=True)
attempt_errors: st.SearchStrategy[AttemptError] = st.builds(
    AttemptError,
    st.sampled_from(["Postgres", "Storage", "C" * 256]),
    st.sampled_from(["22021", "TIMEOUT", "_.-"]),
)

schedules: st.SearchStrategy[RetrySchedule] = st.builds(
    RetrySchedule,
    attempts=st.integers(min_value=0, max_value=100),
    next_attempt_at=instants,
    last_error=st.none() | attempt_errors.map(str),
)

rules: st.SearchStrategy[ProvisioningRules] = st.builds(
    ProvisioningRules,
    max_attempts=st.integers(min_value=1, max_value=10),
    stuck_after=st.timedeltas(min_value=timedelta(0), max_value=timedelta(minutes=10)),
    backoff=st.builds(
        BackoffPolicy,
        base=st.timedeltas(min_value=MICROSECOND, max_value=timedelta(minutes=15)),
        factor=st.floats(min_value=1.0, max_value=10.0),
        cap=st.timedeltas(min_value=timedelta(minutes=15), max_value=timedelta(hours=1)),
        jitter=st.floats(min_value=0.0, max_value=1.0, exclude_max=True),
    ),
)

_titles = st.one_of(
    st.text(max_size=5),
    st.sampled_from(["Flat 12", "", "   ", "\u2003", "T" * 256, "T" * 257]),
)


def chats(*, usable: bool | None = None) -> st.SearchStrategy[Chat]:
    """The deal's chat: one that can be used, one that cannot, or either."""
    every = st.builds(
        a_chat,
        kind=st.sampled_from(["Deal", "Group", "Direct"]),
        status=st.sampled_from(["Active", "Archived", "Closed"]),
        title=st.sampled_from(["Flat 12", "Renamed by its members"]),
        version=st.integers(min_value=0, max_value=100),
    )
    if usable is None:
        return st.builds(a_chat) | every
    return every.filter(lambda chat: (chat.kind == "Deal" and chat.status == "Active") is usable)


_any_status = st.sampled_from(ProvisionStatus)
_open_status = st.sampled_from([ProvisionStatus.PROVISIONING, ProvisionStatus.FAILED])


@st.composite
def provisions(
    draw: st.DrawFn,
    *,
    statuses: st.SearchStrategy[ProvisionStatus] = _any_status,
    max_attempts: int = 12,
) -> DealChatProvision:
    """A provision in any state, with members and a title that may or may not pass the guards."""
    status = draw(statuses)
    return a_provision(
        status=status,
        chat_id=CHAT_ID if status is ProvisionStatus.READY else None,
        title=draw(_titles),
        attempts=draw(st.integers(min_value=0, max_value=max_attempts)),
        next_attempt_at=draw(near_now),
        last_error=draw(st.none() | attempt_errors.map(str)),
        members=draw(distinct_members | distinct_members.map(lambda members: members + members[-1:])),
        updated_at=draw(near_now),
        version=draw(st.integers(min_value=0, max_value=2**40)),
    )


@st.composite
def snapshots(draw: st.DrawFn, rules: ProvisioningRules) -> ProvisionSnapshot:
    """An open provision with an attempt left, and what an attempt sees with it."""
    chat = draw(st.none() | chats())
    return ProvisionSnapshot(
        provision=draw(
            provisions(
                statuses=_open_status,
                max_attempts=rules.max_attempts - 1,
            )
        ),
        chat=chat,
        participants=() if chat is None else tuple(draw(participants)),
    )
