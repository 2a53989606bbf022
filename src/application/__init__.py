"""The use cases and what runs them; knows the domain and nothing else.

What a host imports from here is listed in ``__all__`` and kept stable; the ports that it may bring itself are in
`ports`. Importing it needs no driver.
"""

from ..domain.chat import Member
from ..domain.evidence import RecordingFormat
from .announce_recording import Announcer
from .chat_provision_retry import CHAT_PROVISION_RETRY, ChatProvisionRetry
from .cycle_report import AttemptReport, Cycle, CycleEnd, CycleReport, Outcome
from .finalize_uploaded_recording import FinalizeUploadedRecording, UploadResult
from .open_finalization import OpenFinalization
from .options import (
    ChatProvisionRetryOptions,
    InvalidOptions,
    JobOptions,
    OutboxRelayOptions,
    RecordingFinalizeRetryOptions,
)
from .outbox_relay import OUTBOX_RELAY, OutboxRelay
from .periodic import run_periodically
from .provision_created_deal import CreatedDeal, ProvisionCreatedDeal
from .provision_deal_chat import ProvisionDealChat
from .recording_finalize_retry import RECORDING_FINALIZE_RETRY, RecordingFinalizeRetry
from .relay_report import PassReport, RelayReport
from .requeue_finalizations import RequeueFinalizations
from .requeue_provisions import RequeueProvisions
from .requeue_report import RequeueReport
from .run_cycle import CycleLimits, PeriodicJob, run_cycle
from .stop_signal import StopSignal

__all__ = [
    "CHAT_PROVISION_RETRY",
    "OUTBOX_RELAY",
    "RECORDING_FINALIZE_RETRY",
    "Announcer",
    "AttemptReport",
    "ChatProvisionRetry",
    "ChatProvisionRetryOptions",
    "CreatedDeal",
    "Cycle",
    "CycleEnd",
    "CycleLimits",
    "CycleReport",
    "FinalizeUploadedRecording",
    "InvalidOptions",
    "JobOptions",
    "Member",
    "OpenFinalization",
    "OutboxRelay",
    "OutboxRelayOptions",
    "Outcome",
    "PassReport",
    "PeriodicJob",
    "ProvisionCreatedDeal",
    "ProvisionDealChat",
    "RecordingFinalizeRetry",
    "RecordingFinalizeRetryOptions",
    "RecordingFormat",
    "RelayReport",
    "RequeueFinalizations",
    "RequeueProvisions",
    "RequeueReport",
    "StopSignal",
    "UploadResult",
    "run_cycle",
    "run_periodically",
]
