"""The demo's storage: a folder in the place of a bucket, with sound in it, that is not there at first."""

from __future__ import annotations

import json
import wave
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import Final

from attrs import frozen

_RATE: Final = 8_000  # samples of one byte in a second: the sound of a telephone
_MIDDLE: Final = 128


@frozen
class Bucket:
    """Files are laid down beside its ``folder``, and come into it all at once when the bucket is created."""

    folder: Path

    def lay_down(self, files: Iterable[tuple[str, str]]) -> None:
        """Make the file of each object key, as its scenario wants it. Blocks its thread."""
        sound = a_second_of_sound()
        for object_key, scenario in files:
            path = self._outside / object_key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"" if scenario == "empty file" else sound)
            if scenario == "unknown type":
                description = {"content-type": "application/x-unheard-of"}
                path.with_name(f"{path.name}.json").write_text(json.dumps(description))

    def create(self) -> None:
        """From now on it is there."""
        self._outside.rename(self.folder)

    @property
    def _outside(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}-to-come")


def a_second_of_sound() -> bytes:
    """A WAV file: a square wave of 400 Hz."""
    file = BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(1)
        sound.setframerate(_RATE)
        sound.writeframes((bytes([_MIDDLE - 8]) * 10 + bytes([_MIDDLE + 8]) * 10) * (_RATE // 20))
    return file.getvalue()
