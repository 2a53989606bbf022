from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("distributions")
    build(ROOT, folder, "--wheel")
    build(ROOT, folder, "--sdist")
    return folder


def build(project: Path, folder: Path, kind: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "build", kind, "--no-isolation", "--outdir", str(folder), str(project)],
        check=True,
        capture_output=True,
    )


def installed_files(folder: Path) -> dict[str, bytes]:
    """What the folder's only wheel installs, with its content."""
    (path,) = folder.glob("*.whl")
    with ZipFile(path) as wheel:
        return {name: wheel.read(name) for name in wheel.namelist() if ".dist-info/" not in name}


def package_files(folder: Path) -> dict[str, bytes]:
    """Those of them that are the package; others are the contracts, see `test_contracts_package.py`."""
    return {
        name: content
        for name, content in installed_files(folder).items()
        if not name.startswith("messenger_jobs_contracts/")
    }


def source_files() -> dict[str, bytes]:
    return {
        f"messenger_jobs/{path.relative_to(SOURCE).as_posix()}": path.read_bytes()
        for path in SOURCE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_wheel_holds_exactly_the_source_under_the_import_name(distributions: Path) -> None:
    assert package_files(distributions) == source_files()


def test_wheel_built_from_the_source_distribution_is_the_same(distributions: Path, tmp_path: Path) -> None:
    (path,) = distributions.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    build(unpacked, tmp_path / "wheel", "--wheel")
    assert installed_files(tmp_path / "wheel") == installed_files(distributions)


def test_package_tells_type_checkers_that_it_is_typed(distributions: Path) -> None:
    assert package_files(distributions)["messenger_jobs/py.typed"] == b""
