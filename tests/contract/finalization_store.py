"""What every `FinalizationStore` must show."""

from __future__ import annotations

from tests.contract.finalization_cancellation import Cancellation
from tests.contract.finalization_selection import Selection
from tests.contract.finalization_units import Units
from tests.contract.finalization_writing import Writing


class FinalizationStoreContract(Selection, Writing, Units, Cancellation):
    """The whole contract; a subclass for an adapter overrides the fixture `harness`."""
