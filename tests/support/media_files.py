"""Real recordings, a few seconds long, in every format; made by FFmpeg's libraries when they are first asked for."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from fractions import Fraction
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import av
from attrs import frozen
from av.container import OutputContainer
from messenger_jobs.domain.evidence import RecordingFormat

SECONDS: Final = 3
DURATION: Final = timedelta(seconds=SECONDS)
TOLERANCE: Final = timedelta(milliseconds=50)
"""An encoder works in frames: the last one is filled up."""

_RATE: Final = 48_000
_FRAMES_PER_SECOND: Final = 5


@frozen
class Recipe:
    content_type: str
    muxer: str
    sound: str
    picture: str | None = None
    options: tuple[tuple[str, str], ...] = ()


RECIPES: Final[Mapping[RecordingFormat, Recipe]] = {
    RecordingFormat.MP4: Recipe("video/mp4", "mp4", "aac", "mpeg4"),
    RecordingFormat.M4A: Recipe("audio/mp4", "ipod", "aac"),
    RecordingFormat.WEBM: Recipe("video/webm", "webm", "libopus", "libvpx"),
    RecordingFormat.OGG: Recipe("audio/ogg", "ogg", "libopus"),
    RecordingFormat.MP3: Recipe("audio/mpeg", "mp3", "libmp3lame"),
    RecordingFormat.WAV: Recipe("audio/wav", "wav", "pcm_s16le"),
}
HEADER_FIRST: Final = Recipe("video/mp4", "mp4", "aac", "mpeg4", (("movflags", "faststart"),))
FRAGMENTED: Final = Recipe("video/mp4", "mp4", "aac", "mpeg4", (("movflags", "frag_keyframe+empty_moov"),))
LIVE: Final = Recipe("video/webm", "webm", "libopus", "libvpx", (("live", "1"),))
"""As a browser records: nobody knows yet for how long."""


@frozen
class MediaFile:
    content: bytes
    content_type: str


def media_file(format: RecordingFormat) -> MediaFile:
    """A recording of `DURATION`, give or take the `TOLERANCE`."""
    return cooked(RECIPES[format])


@cache
def cooked(recipe: Recipe) -> MediaFile:
    """A recording made by this recipe; the same bytes for the whole test run."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "recording"
        with av.open(str(path), "w", format=recipe.muxer, options=dict(recipe.options)) as container:
            _record(container, recipe)
        return MediaFile(path.read_bytes(), recipe.content_type)


def _record(container: OutputContainer, recipe: Recipe) -> None:
    sound = container.add_stream(recipe.sound, rate=_RATE, layout="mono")
    assert isinstance(sound, av.AudioStream)
    streams: list[av.AudioStream | av.VideoStream] = [sound]
    if recipe.picture is not None:
        picture = container.add_stream(recipe.picture, rate=_FRAMES_PER_SECOND)
        assert isinstance(picture, av.VideoStream)
        picture.width, picture.height, picture.pix_fmt = 64, 48, "yuv420p"
        streams.append(picture)
    for second in range(SECONDS):
        for stream in streams:
            if isinstance(stream, av.AudioStream):
                _sound_of_a_second(container, stream, second)
            else:
                _pictures_of_a_second(container, stream, second)
    for stream in streams:
        container.mux(stream.encode(None))


def _sound_of_a_second(container: OutputContainer, stream: av.AudioStream, second: int) -> None:
    frame = av.AudioFrame(format=stream.codec_context.format.name, layout="mono", samples=_RATE)
    frame.sample_rate, frame.pts, frame.time_base = _RATE, second * _RATE, Fraction(1, _RATE)
    for plane in frame.planes:
        plane.update(bytes(plane.buffer_size))
    container.mux(stream.encode(frame))


def _pictures_of_a_second(container: OutputContainer, stream: av.VideoStream, second: int) -> None:
    for number in range(second * _FRAMES_PER_SECOND, (second + 1) * _FRAMES_PER_SECOND):
        frame = av.VideoFrame(64, 48, "yuv420p")
        frame.pts, frame.time_base = number, Fraction(1, _FRAMES_PER_SECOND)
        for plane in frame.planes:
            plane.update(bytes([number]) * plane.buffer_size)
        container.mux(stream.encode(frame))
