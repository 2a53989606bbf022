"""Spans of cycles, attempts and publishings, and what they say."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest
from attrs import define, evolve, field
from messenger_jobs.adapters.telemetry.open_telemetry import OpenTelemetryTracing, TracedPublisher
from messenger_jobs.application.cycle_report import AttemptReport, Cycle, Outcome
from messenger_jobs.application.event_envelope import envelope
from messenger_jobs.application.integration_events import deal_chat_status_changed
from messenger_jobs.application.ports.event_publisher import (
    Event,
    NotPublished,
    Published,
    Receipt,
    Unpublishable,
)
from messenger_jobs.domain.deal_chat_provision import DealChatStatusChanged, ProvisionStatus
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from tests.support.builders import CHAT_ID, DEAL_ID, NOW, some_id

CYCLE = Cycle(job="chat-provision-retry", run_id=some_id(1), as_of=NOW)
PROVISIONED = AttemptReport(
    outcome=Outcome.PROVISIONED, subject={"deal_id": DEAL_ID, "chat_id": CHAT_ID}, attempts=2
)


@define
class Recorder:
    """A provider of its own, and what was recorded."""

    exporter: InMemorySpanExporter = field(factory=InMemorySpanExporter)
    provider: TracerProvider = field(factory=TracerProvider)

    def __attrs_post_init__(self) -> None:
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    @property
    def tracing(self) -> OpenTelemetryTracing:
        return OpenTelemetryTracing(self.provider)

    def spans(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self.exporter.get_finished_spans()}


@define
class ListedPublisher:
    """Answers as told, and remembers what it was given."""

    receipt: Receipt
    events: list[Event] = field(factory=list[Event])

    async def publish(self, events: Sequence[Event]) -> Sequence[Receipt]:
        self.events += events
        return [self.receipt for _ in events]


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def attributes(span: ReadableSpan) -> dict[str, object]:
    return dict(span.attributes or {})


def span_of(headers: dict[str, str]) -> str:
    return headers["traceparent"].split("-")[2]


def id_of(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"{span.context.span_id:016x}"


def parent_of(span: ReadableSpan) -> str | None:
    return None if span.parent is None else f"{span.parent.span_id:016x}"


def headers_of(event: Event) -> dict[str, str]:
    return {name: value.decode() for name, value in event.headers}


def an_event(trace: dict[str, str], event_id: UUID = DEAL_ID) -> Event:
    change = DealChatStatusChanged(
        deal_id=DEAL_ID, chat_id=CHAT_ID, status=ProvisionStatus.READY, occurred_at=NOW
    )
    return envelope(
        deal_chat_status_changed(change, event_id=event_id, correlation_id=CYCLE.run_id, trace=trace)
    )


def test_attempt_is_a_child_of_its_cycle_and_says_what_it_came_to(recorder: Recorder) -> None:
    with recorder.tracing.cycle(CYCLE), recorder.tracing.attempt(CYCLE) as attempt:
        attempt.ended(PROVISIONED)

    cycle, attempted = (
        recorder.spans()["chat-provision-retry"],
        recorder.spans()["chat-provision-retry attempt"],
    )
    assert parent_of(cycle) is None
    assert parent_of(attempted) == id_of(cycle)
    assert attributes(cycle) == {"job": CYCLE.job, "job_run_id": str(CYCLE.run_id)}
    assert attributes(attempted) == {
        "job": CYCLE.job,
        "deal_id": str(DEAL_ID),
        "chat_id": str(CHAT_ID),
        "outcome": "provisioned",
        "attempts": 2,
    }
    assert attempted.status.status_code is StatusCode.UNSET


@pytest.mark.parametrize(
    ("outcome", "phase"),
    [
        (Outcome.RECONCILED, "reconcile"),
        (Outcome.RETRIED, "reconcile"),
        (Outcome.FAILED, "reconcile"),
        (Outcome.QUARANTINED, "reconcile"),
        (Outcome.RELEASED, "reconcile"),
        (Outcome.REPUBLISHED, "republish"),
        (Outcome.CLOSED, "close"),
        (Outcome.DEFERRED, "defer"),
    ],
)
def test_attempt_at_a_recording_says_its_phase(recorder: Recorder, outcome: Outcome, phase: str) -> None:
    with recorder.tracing.attempt(CYCLE) as attempt:
        attempt.ended(AttemptReport(outcome=outcome, subject={"recording_id": some_id(3)}))

    (span,) = recorder.exporter.get_finished_spans()
    assert attributes(span)["phase"] == phase


def test_failed_attempt_is_an_error_with_its_code(recorder: Recorder) -> None:
    with recorder.tracing.attempt(CYCLE) as attempt:
        attempt.ended(evolve(PROVISIONED, outcome=Outcome.RETRIED, error_code="ProvisionGuard:NO_MEMBERS"))

    (span,) = recorder.exporter.get_finished_spans()
    assert span.status.status_code is StatusCode.ERROR
    assert attributes(span)["error_code"] == "ProvisionGuard:NO_MEMBERS"


def test_exception_leaves_its_class_and_nothing_that_it_says(recorder: Recorder) -> None:
    with pytest.raises(ValueError, match="Ivan"), recorder.tracing.attempt(CYCLE):
        raise ValueError("Ivan's flat")

    (span,) = recorder.exporter.get_finished_spans()
    assert span.status.status_code is StatusCode.ERROR
    assert attributes(span)["error_code"] == "ValueError"
    assert "Ivan" not in span.to_json()


def test_headers_carry_the_current_span(recorder: Recorder) -> None:
    with recorder.tracing.attempt(CYCLE):
        headers = dict(recorder.tracing.headers())

    (span,) = recorder.exporter.get_finished_spans()
    assert span_of(headers) == id_of(span)


def test_there_are_no_headers_outside_a_span(recorder: Recorder) -> None:
    assert recorder.tracing.headers() == {}


async def test_publishing_continues_the_trace_of_the_attempt_and_hands_it_on(recorder: Recorder) -> None:
    with recorder.tracing.attempt(CYCLE):
        event = an_event(dict(recorder.tracing.headers()))
    broker = ListedPublisher(Published(partition=3, offset=1042))

    await TracedPublisher(broker, recorder.provider).publish([event])

    attempt = recorder.spans()["chat-provision-retry attempt"]
    publishing = recorder.spans()[f"publish {event.topic}"]
    (sent,) = broker.events
    assert publishing.kind is SpanKind.PRODUCER
    assert parent_of(publishing) == id_of(attempt)
    assert span_of(headers_of(sent)) == id_of(publishing)
    assert attributes(publishing)["messaging.kafka.offset"] == 1042
    assert evolve(sent, headers=()) == evolve(event, headers=())
    assert {**headers_of(sent), "traceparent": ""} == {**headers_of(event), "traceparent": ""}


async def test_event_without_a_trace_goes_out_as_it_is(recorder: Recorder) -> None:
    broker, event = ListedPublisher(Published(partition=0, offset=0)), an_event({})

    await TracedPublisher(broker, recorder.provider).publish([event])

    assert broker.events == [event]
    assert recorder.exporter.get_finished_spans() == ()


@pytest.mark.parametrize(
    "receipt", [Unpublishable(code="Kafka:TOO_LARGE"), NotPublished(code="Kafka:UNREACHABLE", outage=True)]
)
async def test_event_that_was_not_published_is_an_error_with_its_code(
    recorder: Recorder, receipt: Unpublishable | NotPublished
) -> None:
    with recorder.tracing.attempt(CYCLE):
        event = an_event(dict(recorder.tracing.headers()))

    receipts = await TracedPublisher(ListedPublisher(receipt), recorder.provider).publish([event])

    publishing = recorder.spans()[f"publish {event.topic}"]
    assert receipts == [receipt]
    assert publishing.status.status_code is StatusCode.ERROR
    assert attributes(publishing)["error_code"] == receipt.code


async def test_span_of_a_publishing_ends_when_the_publisher_raises(recorder: Recorder) -> None:
    class Broken:
        async def publish(self, events: Sequence[Event]) -> Sequence[Receipt]:
            raise RuntimeError

    with recorder.tracing.attempt(CYCLE):
        event = an_event(dict(recorder.tracing.headers()))
    with pytest.raises(RuntimeError):
        await TracedPublisher(Broken(), recorder.provider).publish([event])

    assert f"publish {event.topic}" in recorder.spans()


def test_headers_are_understood_by_others(recorder: Recorder) -> None:
    with recorder.tracing.attempt(CYCLE):
        headers = dict(recorder.tracing.headers())

    assert TraceContextTextMapPropagator().extract(headers)
