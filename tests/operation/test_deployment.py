"""Container and compose file, as far as they can be tried without a container engine."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlsplit
from zipfile import ZipFile

import environ
import psycopg
import pytest
from messenger_jobs.adapters.local.postgres_server import PostgresServer
from messenger_jobs.entrypoints.durations import parse_duration
from messenger_jobs.entrypoints.settings import Settings, load_settings

from tests.operation.database_roles import apply
from tests.operation.deployed_files import ROOT, loaded
from tests.operation.promtool import promtool
from tests.operation.runbooks import TOPICS
from tests.support.processes import JOB, run, run_json, worker

DEPLOY: Final = ROOT / "deploy"
CONTAINERFILE: Final = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
INSTRUCTIONS: Final = re.sub(r"\\\n", " ", CONTAINERFILE).splitlines()
COMPOSE: Final[dict[str, Any]] = loaded(DEPLOY / "compose.yaml")
SERVICES: Final[dict[str, dict[str, Any]]] = COMPOSE["services"]

# A name, and a version of which one can say which one it is.
PINNED: Final = re.compile(r"[a-z0-9./-]+:(RELEASE\.\d{4}-|v?\d+\.\d+)[A-Za-z0-9.-]*")


def settings_of(service: str) -> Mapping[str, str]:
    return cast("Mapping[str, str]", SERVICES[service]["environment"])


def known_settings() -> set[str]:
    def names(settings: list[dict[str, str]]) -> str:
        return "\n".join(setting["var_name"] for setting in settings)

    return set(environ.generate_help(Settings, formatter=names).splitlines())


def instructions(name: str) -> Iterator[str]:
    for line in INSTRUCTIONS:
        if line.strip().startswith(f"{name} "):
            yield line.strip().removeprefix(f"{name} ")


# Images


def test_every_image_is_of_a_stated_version() -> None:
    images = [service["image"] for service in SERVICES.values() if "build" not in service]
    images += [source.split()[0] for source in instructions("FROM")]

    assert images
    for image in images:
        assert PINNED.fullmatch(image), image


def test_image_is_built_from_what_it_copies(tmp_path: Path) -> None:
    let_in = (DEPLOY / "Containerfile.dockerignore").read_text().splitlines()
    context = tmp_path / "build"
    context.mkdir()
    for copied in instructions("COPY"):
        if "--from" in copied:
            continue
        *sources, target = copied.split()
        for source in sources:
            assert f"!{source}" in let_in
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, context / target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / source, context / target)

    finished = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, context],
        capture_output=True,
        text=True,
        check=False,
    )

    assert finished.returncode == 0, finished.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert "messenger_jobs/entrypoints/cli.py" in ZipFile(wheel).namelist()


def test_extras_in_the_image_exist() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (named,) = re.findall(r"\.whl\)\[([a-z,]+)\]", CONTAINERFILE)

    assert set(named.split(",")) <= extras.keys()


def test_image_starts_the_worker_as_nobody_in_particular() -> None:
    *_, last = [stage.split() for stage in instructions("FROM")]
    (user,) = instructions("USER")
    (entrypoint,) = instructions("ENTRYPOINT")
    (command,) = instructions("CMD")

    assert "AS" not in last
    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", user)
    assert (json.loads(entrypoint), json.loads(command)) == (["messenger-jobs"], ["worker"])


def test_settings_in_the_image_exist() -> None:
    assert set(re.findall(r"\bMESSENGER_\w+(?==)", CONTAINERFILE)) <= known_settings()


def test_health_check_of_the_image_follows_the_worker(database_url: str) -> None:
    (check,) = re.findall(r"HEALTHCHECK .*CMD (\[.*\])", "\n".join(INSTRUCTIONS))
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]

    def healthy() -> bool:
        environment = {
            "MESSENGER_HTTP_PORT": str(port),
            "http_proxy": "http://127.0.0.1:9",
            "PATH": str(Path(sys.executable).parent),
        }
        finished = subprocess.run(json.loads(check), env=environment, capture_output=True, check=False)
        return finished.returncode == 0

    with worker(database_url, MESSENGER_HTTP_PORT=port) as running:
        running.logs("cycle completed")
        assert healthy()
    assert not healthy()


# Compose


def test_every_file_that_is_mounted_is_there() -> None:
    mounted = [volume.split(":")[0] for service in SERVICES.values() for volume in service.get("volumes", ())]

    assert mounted
    for source in mounted:
        assert (DEPLOY / source).exists() if source.startswith(".") else source in COMPOSE["volumes"]


def test_image_of_ours_is_built_from_this_repository() -> None:
    for service in ("migrate", "worker"):
        build = SERVICES[service]["build"]
        assert (DEPLOY / build["context"]).resolve() == ROOT
        assert (ROOT / build["dockerfile"]).is_file()


def test_services_wait_for_services_that_can_be_waited_for() -> None:
    for service in SERVICES.values():
        for name, wait in service.get("depends_on", {}).items():
            if wait["condition"] == "service_healthy":
                assert "test" in SERVICES[name]["healthcheck"]
            else:
                assert wait["condition"] == "service_completed_successfully"
                assert SERVICES[name]["restart"] == "no"


def test_worker_may_do_little_and_has_time_to_stop() -> None:
    worker_service = SERVICES["worker"]
    grace = load_settings(settings_of("worker")).shutdown_grace

    assert worker_service["read_only"] is True
    assert worker_service["cap_drop"] == ["ALL"]
    assert parse_duration(worker_service["stop_grace_period"]) > grace


@pytest.mark.parametrize("service", ["migrate", "worker"])
def test_settings_in_the_compose_file_exist_and_are_accepted(service: str) -> None:
    given = settings_of(service)

    assert given.keys() <= known_settings()
    load_settings(given)


def test_topics_of_the_contract_are_created() -> None:
    (script,) = SERVICES["topics"]["command"]
    loop = re.sub(r"\\\n", " ", script).splitlines()[0]

    assert shlex.split(loop)[3:] == list(TOPICS)


def test_worker_may_read_its_bucket_and_nothing_else() -> None:
    bucket = settings_of("worker")["MESSENGER_S3_BUCKET_CALL_RECORDINGS"]
    policy = json.loads((DEPLOY / "storage" / "read-only.json").read_text())
    allowed = {
        (action, resource)
        for statement in policy["Statement"]
        for action in statement["Action"]
        for resource in statement["Resource"]
    }

    assert allowed == {
        ("s3:GetObject", f"arn:aws:s3:::{bucket}/*"),
        ("s3:ListBucket", f"arn:aws:s3:::{bucket}"),
    }


def test_database_is_set_up_in_this_order_with_these_accounts(own_postgres_server: PostgresServer) -> None:
    def as_in_compose(url: str) -> str:
        """The same account and database on the server of this test."""
        address = f"127.0.0.1:{own_postgres_server.port}"
        parts = urlsplit(url)
        return parts._replace(netloc=f"{parts.username}:{parts.password}@{address}").geturl()

    with psycopg.connect(own_postgres_server.url(), autocommit=True) as connection:
        connection.execute("create database messenger")
    for script in ("postgres/roles.sql", "compose/accounts.sql"):
        apply(f"../{script}", own_postgres_server.url("messenger"))
    migrator = as_in_compose(settings_of("migrate")["MESSENGER_DATABASE_URL"])
    assert run(migrator, *SERVICES["migrate"]["command"]).returncode == 0
    assert as_in_compose(SERVICES["grants"]["command"][-1]) == migrator
    apply("grants.sql", migrator)

    worked = run_json(as_in_compose(settings_of("worker")["MESSENGER_DATABASE_URL"]), "run-once", JOB)

    assert worked["end"] == "completed"


def test_prometheus_can_load_its_configuration() -> None:
    finished = promtool("check", "config", DEPLOY / "prometheus" / "prometheus.yml")

    assert finished.returncode == 0, finished.stdout + finished.stderr


def test_prometheus_finds_the_workers_and_keeps_their_labels() -> None:
    (scrape,) = loaded(DEPLOY / "prometheus" / "prometheus.yml")["scrape_configs"]
    (found,) = scrape["dns_sd_configs"]

    assert scrape["honor_labels"] is True
    assert (found["names"], str(found["port"])) == (["worker"], settings_of("worker")["MESSENGER_HTTP_PORT"])


def test_grafana_finds_prometheus_and_the_dashboard() -> None:
    (source,) = loaded(DEPLOY / "grafana/provisioning/datasources/prometheus.yml")["datasources"]
    (provider,) = loaded(DEPLOY / "grafana/provisioning/dashboards/messenger-jobs.yml")["providers"]

    assert urlsplit(source["url"]).hostname in SERVICES
    assert f"./grafana/dashboards:{provider['options']['path']}:ro" in SERVICES["grafana"]["volumes"]
