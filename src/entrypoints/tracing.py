"""Traces, where the environment says where to send them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from opentelemetry.trace import TracerProvider

from ..adapters.telemetry.open_telemetry import OpenTelemetryTracing
from ..application.ports.tracing import UNTRACED, Tracing
from .settings import InvalidSettings

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_SERVICE_NAME: Final = "messenger-jobs"


@asynccontextmanager
async def tracer_provider(variables: Mapping[str, str]) -> AsyncGenerator[TracerProvider | None]:
    """OpenTelemetry's SDK, set up by its own variables; None without an endpoint, or with ``OTEL_SDK_DISABLED=true``.

    What was recorded is sent when the context ends; a collector that does not answer holds that up for as long as
    ``OTEL_EXPORTER_OTLP_TIMEOUT`` says (10 s), beside the event loop. Raises `InvalidSettings` when an endpoint is
    given, but the extra ``otel`` is not installed.
    """
    given = next((name for name in _ENDPOINTS if variables.get(name, "").strip()), None)
    if given is None or variables.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        yield None
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - optional
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider as SdkTracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ModuleNotFoundError:
        raise InvalidSettings(
            {given: "needs the extra otel: pip install 'pin-messenger-jobs[otel]'"}
        ) from None
    name = variables.get("OTEL_SERVICE_NAME", "").strip() or _SERVICE_NAME
    provider = SdkTracerProvider(resource=Resource.create({SERVICE_NAME: name}), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    try:
        yield provider
    finally:
        await asyncio.to_thread(provider.shutdown)


def tracing_on(provider: TracerProvider | None) -> Tracing:
    """What the application opens its spans with."""
    return UNTRACED if provider is None else OpenTelemetryTracing(provider)
