"""Cycles, attempts and publishings as spans of OpenTelemetry."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Final

from attrs import evolve, frozen
from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ...application.cycle_report import AttemptReport, Cycle, Outcome
from ...application.ports.event_publisher import Event, EventPublisher, Published, Receipt
from ...application.ports.tracing import AttemptSpan

_W3C: Final = TraceContextTextMapPropagator()
_SCOPE: Final = "messenger_jobs"
_TRACEPARENT: Final = "traceparent"
_FAILURES: Final = (Outcome.RETRIED, Outcome.FAILED, Outcome.QUARANTINED, Outcome.ROLLED_BACK)
_PHASES: Final[Mapping[Outcome, str]] = {
    Outcome.REPUBLISHED: "republish",
    Outcome.CLOSED: "close",
    Outcome.DEFERRED: "defer",
}


@frozen
class _OpenTelemetryAttempt:
    _span: Span

    def ended(self, report: AttemptReport) -> None:
        self._span.set_attributes({name: str(id_) for name, id_ in report.subject.items()})
        self._span.set_attribute("outcome", report.outcome.value)
        if "recording_id" in report.subject:
            self._span.set_attribute("phase", _PHASES.get(report.outcome, "reconcile"))
        if report.attempts is not None:
            self._span.set_attribute("attempts", report.attempts)
        if report.error_code is not None:
            self._span.set_attribute("error_code", report.error_code)
        if report.outcome in _FAILURES:
            self._span.set_status(Status(StatusCode.ERROR))


class OpenTelemetryTracing:
    """A `Tracing` on ``provider``, or on the process's own where none is given.

    Spans hold ids, numbers and stable codes. What an exception says is not recorded, only its class.
    """

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer(_SCOPE, tracer_provider=provider)

    def cycle(self, cycle: Cycle) -> AbstractContextManager[object]:
        """A span named after the job, with ``job_run_id``."""
        attributes = {"job": cycle.job, "job_run_id": str(cycle.run_id)}
        return _span(self._tracer, cycle.job, attributes)

    @contextmanager
    def attempt(self, cycle: Cycle) -> Generator[AttemptSpan]:
        """A span with the row's ids, ``attempts``, ``outcome`` and, of a recording, its ``phase``."""
        with _span(self._tracer, f"{cycle.job} attempt", {"job": cycle.job}) as span:
            yield _OpenTelemetryAttempt(span)

    def headers(self) -> Mapping[str, str]:
        """``traceparent``, and ``tracestate`` if there is one."""
        carrier: dict[str, str] = {}
        _W3C.inject(carrier)
        return carrier


class TracedPublisher:
    """An `EventPublisher` that shows each publishing as a span in the trace of the attempt that caused the event.

    An event that carries ``traceparent`` goes out with that of the publishing; others go out as they are.
    """

    def __init__(self, publisher: EventPublisher, provider: TracerProvider | None = None) -> None:
        self._publisher = publisher
        self._tracer = trace.get_tracer(_SCOPE, tracer_provider=provider)

    async def publish(self, events: Sequence[Event]) -> Sequence[Receipt]:
        """See `EventPublisher.publish`."""
        with ExitStack() as open_spans:
            spans = [self._started(event, open_spans) for event in events]
            traced = [
                event if span is None else _carrying(event, span)
                for event, span in zip(events, spans, strict=True)
            ]
            receipts = await self._publisher.publish(traced)
            for span, receipt in zip(spans, receipts, strict=True):
                if span is not None:
                    _tell(span, receipt)
        return receipts

    def _started(self, event: Event, open_spans: ExitStack) -> Span | None:
        carrier = {name: value.decode("ascii", "replace") for name, value in event.headers}
        if _TRACEPARENT not in carrier:
            return None
        span = self._tracer.start_span(
            f"publish {event.topic}",
            context=_W3C.extract(carrier),
            kind=SpanKind.PRODUCER,
            attributes={"messaging.system": "kafka", "messaging.destination.name": event.topic},
        )
        open_spans.callback(span.end)
        return span


@contextmanager
def _span(tracer: Tracer, name: str, attributes: Mapping[str, str]) -> Generator[Span]:
    with tracer.start_as_current_span(
        name, attributes=attributes, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield span
        except BaseException as error:
            span.set_attribute("error_code", getattr(error, "code", type(error).__name__))
            span.set_status(Status(StatusCode.ERROR))
            raise


def _carrying(event: Event, span: Span) -> Event:
    carrier: dict[str, str] = {}
    _W3C.inject(carrier, context=trace.set_span_in_context(span))
    kept = tuple((name, value) for name, value in event.headers if name not in carrier)
    return evolve(event, headers=(*kept, *((name, value.encode()) for name, value in carrier.items())))


def _tell(span: Span, receipt: Receipt) -> None:
    if isinstance(receipt, Published):
        if receipt.partition is not None and receipt.offset is not None:
            span.set_attribute("messaging.destination.partition.id", str(receipt.partition))
            span.set_attribute("messaging.kafka.offset", receipt.offset)
    else:
        span.set_attribute("error_code", receipt.code)
        span.set_status(Status(StatusCode.ERROR))
