"""What every `ProvisioningStore` must show."""

from __future__ import annotations

from tests.contract.provisioning_cancellation import Cancellation
from tests.contract.provisioning_intents import Intents
from tests.contract.provisioning_selection import Selection
from tests.contract.provisioning_settling import Settling
from tests.contract.provisioning_units import Units


class ProvisioningStoreContract(Selection, Intents, Units, Settling, Cancellation):
    """The whole contract; a subclass for an adapter overrides the fixture `harness`."""
