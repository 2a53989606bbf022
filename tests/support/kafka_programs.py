"""The programs of a real Apache Kafka: Java of this machine, and jars that Maven brings into the user's cache.

``python3 -m tests.support.kafka_programs`` brings them before any test needs them; it asks for nothing outside Python's
own library.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_POM: Final = Path(__file__).parent / "kafka" / "pom.xml"
_OLDEST_JAVA: Final = 17
_DOWNLOAD: Final = 240.0  # seconds

MISSING: Final = f"install Java {_OLDEST_JAVA} or newer and Maven"


class KafkaProgramsError(Exception):
    """There is no Apache Kafka to be had here; the message is a sentence that says why."""


@dataclass(frozen=True)
class KafkaPrograms:
    java: str
    jars: Path

    @property
    def label(self) -> str:
        return f"Apache Kafka {_version()}"

    def command(self, main_class: str, *arguments: str, log_level: str = "warn") -> list[str]:
        """For servers that live for seconds: little memory, compiled quickly rather than well."""
        tuning = ("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
        logging = f"-Dorg.slf4j.simpleLogger.defaultLogLevel={log_level}"
        return [self.java, *tuning, logging, "-cp", f"{self.jars}/*", main_class, *arguments]


def kafka_programs_expected() -> str | None:
    """The label of what `kafka_programs` would most likely find; asks nobody, so that it costs nothing."""
    at_hand = _java() and (_cached_jars().exists() or shutil.which("mvn"))
    return f"Apache Kafka {_version()}" if at_hand else None


def kafka_programs() -> KafkaPrograms:
    """Java and the jars, which are downloaded when they are not in the cache yet (43 MB).

    Raises:
        KafkaProgramsError: one of the programs is missing or too old, or the jars could not be had.
    """
    java = _java()
    if java is None:
        raise KafkaProgramsError(f"there is no Java here: {MISSING}")
    jars = _cached_jars()
    if not jars.exists():
        _require_java(java)
        _download(jars)
    return KafkaPrograms(java, jars)


def _java() -> str | None:
    if home := os.environ.get("JAVA_HOME"):
        return shutil.which(f"{home}/bin/java")
    return shutil.which("java")


def _require_java(java: str) -> None:
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    found = re.search(r'version "(\d+)', answer.stderr)
    if found is None or int(found[1]) < _OLDEST_JAVA:
        raise KafkaProgramsError(f"the Java here is too old or does not run: {MISSING}")


def _version() -> str:
    found = re.search(r"<artifactId>kafka_2.13</artifactId>\s*<version>([^<]+)<", _POM.read_text())
    assert found is not None, f"{_POM} names no version of Kafka"
    return found[1]


def _cached_jars() -> Path:
    """Named after what it was made from, so that another version of Kafka goes elsewhere."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "pin-messenger-jobs" / f"kafka-{hashlib.sha256(_POM.read_bytes()).hexdigest()[:16]}"


def _download(jars: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaProgramsError(f"there is no Maven here: {MISSING}")
    jars.parent.mkdir(parents=True, exist_ok=True)
    with jars.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # whoever else runs tests here waits, and then finds them
        if jars.exists():
            return
        # Renamed when it is complete: a download that is cut short leaves half of the jars.
        with tempfile.TemporaryDirectory(prefix="unfinished-", dir=jars.parent) as unfinished:
            _run_maven(maven, Path(unfinished))
            (Path(unfinished) / "jars").rename(jars)


def _run_maven(maven: str, folder: Path) -> None:
    goal = ("dependency:copy-dependencies", f"-DoutputDirectory={folder / 'jars'}", "-DincludeScope=runtime")
    command = [maven, "--batch-mode", "--quiet", "--no-transfer-progress", "-f", f"{_POM}", *goal]
    try:
        subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_DOWNLOAD,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        complaints = [line for line in str(error.stdout).splitlines() if "ERROR" in line] or [
            "it said nothing"
        ]
        raise KafkaProgramsError(f"Maven could not bring Apache Kafka: {complaints[0]}") from error
    except subprocess.TimeoutExpired as error:
        raise KafkaProgramsError(f"Maven did not bring Apache Kafka within {_DOWNLOAD:g} s") from error


if __name__ == "__main__":
    try:
        print(kafka_programs().label, "is ready.")  # noqa: T201
    except KafkaProgramsError as problem:
        sys.exit(f"No Apache Kafka: {problem}.")
