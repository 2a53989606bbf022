"""Kafka: events out, messages in.

What a host imports from here is listed in ``__all__`` and kept stable. A name is imported when it is first asked for:
the libraries behind it take long.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .deal_created_client import DealCreatedClient
    from .deal_created_consumer import DealCreatedConsumer
    from .event_publisher import KafkaEventPublisher
    from .security import KafkaSecurity

__all__ = ["DealCreatedClient", "DealCreatedConsumer", "KafkaEventPublisher", "KafkaSecurity"]

_MODULES: Final = {
    "DealCreatedClient": "deal_created_client",
    "DealCreatedConsumer": "deal_created_consumer",
    "KafkaEventPublisher": "event_publisher",
    "KafkaSecurity": "security",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    return value
