"""Hints for connected clients, stored in the transaction of the change; another worker delivers them."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from uuid import UUID

from attrs import frozen

from ...domain.call_recording import SessionKind


class RealtimeKind(StrEnum):
    """What a client is told; never with a URL or a secret."""

    RECORDING_AVAILABLE = "RecordingAvailable"
    RECORDING_FAILED = "RecordingFailed"


@frozen(kw_only=True)
class RealtimeNotice:
    """A row of ``messenger.realtime_outbox``; ``reference_id`` is the recording."""

    id: UUID
    kind: RealtimeKind
    session_kind: SessionKind
    session_id: UUID
    reference_id: UUID
    created_at: datetime
