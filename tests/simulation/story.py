"""What happened in a history, told briefly."""

from __future__ import annotations

from datetime import timedelta

from attrs import define, field
from messenger_jobs.adapters.memory.clock import ManualClock

from tests.simulation.process import Gate


@define(eq=False)
class Story:
    """One line per event; exchanges of one process that follow one another share a line."""

    told: bool = True
    """Whether anybody listens: telling takes time."""
    lines: list[str] = field(factory=list[str])
    _speaker: str = ""

    def tell(self, clock: ManualClock, text: str) -> None:
        """Something happened."""
        if self.told:
            self._speaker = ""
            self.lines.append(f"{_time(clock)}  {text}")

    def proceed(self, clock: ManualClock, gate: Gate) -> None:
        """An exchange went as it should."""
        if not self.told:
            return
        who, what = gate.process.name, gate.describe()
        if who == self._speaker:
            self.lines[-1] += f", {what}"
        else:
            self.lines.append(f"{_time(clock)}  {who}: {what}")
            self._speaker = who

    def __str__(self) -> str:
        return "\n".join(self.lines)


def _time(clock: ManualClock) -> str:
    return str(timedelta(seconds=int(clock.monotonic())))
