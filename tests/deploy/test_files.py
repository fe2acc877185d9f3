"""The deployment files name things that exist: settings, metrics, commands."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from ragstone.observe import metrics
from ragstone.settings import load_settings

from ..conftest import NO_SETTINGS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def test_every_metric_of_the_dashboard_is_counted() -> None:
    text = (DEPLOY / "grafana.json").read_text()
    used = set(re.findall(r"ragstone_[a-z_]+", text))
    made = {
        f"{metric._name}{suffix}"
        for metric in vars(metrics).values()
        if hasattr(metric, "_name")
        for suffix in ("", "_total", "_bucket", "_sum", "_count")
    }
    assert used <= made
    assert len(json.loads(text)["panels"]) == 10


def test_the_dashboard_is_the_one_that_the_script_writes() -> None:
    script = ROOT / "scripts" / "build_dashboard.py"
    assert subprocess.run([sys.executable, script, "--check"], check=False).returncode == 0


def test_the_variables_of_the_compose_files_are_settings() -> None:
    loaded = load_settings(config_file=NO_SETTINGS, environ={})
    names = {name for setting in loaded.listing for name in setting.names}
    for file in ("compose.yaml", "compose.cluster.yaml"):
        services = yaml.safe_load((DEPLOY / file).read_text())["services"]
        for name, command in (("ragstone", "serve"), ("worker", "worker")):
            if name in services or file == "compose.cluster.yaml":
                assert set(services[name]["environment"]) <= names, file
                assert services[name]["command"][0] == command


def test_the_cluster_has_all_parts_and_each_volume_is_declared() -> None:
    cluster = yaml.safe_load((DEPLOY / "compose.cluster.yaml").read_text())
    services = cluster["services"]
    nodes = services["ragstone"]["environment"]["RAGSTONE_INDEX_QDRANT_URL"].split(",")
    assert {node.split("/")[2].split(":")[0] for node in nodes} <= services.keys()
    assert {"proxy", "postgres", "objects", "redis"} <= services.keys()
    for service in services.values():
        assert {*service.get("depends_on", ())} <= services.keys()
        named = {one.partition(":")[0] for one in service.get("volumes", ()) if one[0] != "/"}
        assert named <= cluster["volumes"].keys()


def test_the_manifests_name_settings_commands_and_endpoints_that_exist() -> None:
    names = {
        name
        for setting in load_settings(config_file=NO_SETTINGS, environ={}).listing
        for name in setting.names
    }
    found = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
    (configured,) = [one["data"] for one in found if one["kind"] == "ConfigMap"]
    assert set(configured) <= names
    assert all(isinstance(value, str) for value in configured.values())
    commands = []
    for one in found:
        if one["kind"] == "Deployment":
            template = one["spec"]["template"]
            assert one["spec"]["selector"]["matchLabels"] == template["metadata"]["labels"]
            (container,) = template["spec"]["containers"]
            commands += container["args"]
            for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
                if kind in container:
                    assert container[kind]["httpGet"]["path"] in {"/healthz", "/readyz"}
    assert commands == ["serve", "worker"]
    text = (DEPLOY / "kubernetes.yaml").read_text()
    assert set(re.findall(r"--from-literal=([A-Z_]+)=", text)) <= names


@pytest.mark.parametrize("file", ["nginx.conf", "compose.cluster.yaml"])
def test_the_proxys_limits_are_above_those_that_ragstone_explains(file: str) -> None:
    server, text = (
        load_settings(config_file=NO_SETTINGS, environ={}).settings.server,
        (DEPLOY / file).read_text(),
    )
    (megabytes,) = re.findall(r"client_max_body_size (\d+)m;", text)
    assert int(megabytes) > server.max_upload_mb
    waits = re.findall(r"proxy_(?:read|send)_timeout (\d+)s;", text)
    assert len(waits) == 2
    assert min(map(int, waits)) > server.request_timeout_s


def test_the_guide_to_a_cluster_names_settings_and_a_worker_is_made_of_the_servers_unit() -> None:
    guide = (ROOT / "docs" / "guides" / "cluster.md").read_text()
    names = {
        name
        for setting in load_settings(config_file=NO_SETTINGS, environ={}).listing
        for name in setting.names
    }
    shown = re.findall(r"^ *((?:RAGSTONE|AWS)_[A-Z0-9_]+)=", guide, re.MULTILINE)
    assert len(shown) > 10
    assert {*shown, *re.findall(r"\b(RAGSTONE_[A-Z0-9_]+)", guide)} <= names
    (old, new) = re.findall(r"sed 's/([^/]+)/([^/]+)/' deploy/ragstone\.service", guide)[0]
    unit = (DEPLOY / "ragstone.service").read_text()
    assert unit.count(old) == 1
    assert "ExecStart=/opt/ragstone/bin/ragstone worker\n" in unit.replace(old, new)


def test_the_dockerfile_and_the_unit_name_variables_that_are_settings() -> None:
    loaded = load_settings(config_file=NO_SETTINGS, environ={})
    names = {name for setting in loaded.listing for name in setting.names}
    for file in ("Dockerfile", "ragstone.service"):
        used = set(re.findall(r"\b(RAGSTONE_[A-Z_]+)", (DEPLOY / file).read_text()))
        assert used <= names, file


def test_the_lock_file_of_the_image_holds_what_the_makefile_names() -> None:
    extras = re.search(r"^IMAGE_EXTRAS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert extras is not None
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"]]
    for extra in extras[1].split():
        wanted += project["optional-dependencies"][extra]
    locked = set(
        re.findall(r"^([a-z0-9-]+)==", (DEPLOY / "requirements.lock").read_text(), re.MULTILINE)
    )
    names = {re.split(r"[\[<>=~; ]", requirement)[0].lower() for requirement in wanted}
    assert names <= locked, names - locked


def test_what_the_dockerfile_copies_is_there() -> None:
    for line in (DEPLOY / "Dockerfile").read_text().splitlines():
        if line.startswith("COPY ") and "--from" not in line:
            *sources, _target = line.split()[1:]
            assert all((ROOT / source).exists() for source in sources), line


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
def test_the_unit_is_one_that_systemd_reads(tmp_path: Path) -> None:
    unit = tmp_path / "ragstone.service"
    text = (DEPLOY / "ragstone.service").read_text()
    unit.write_text(text.replace("/opt/ragstone/bin/ragstone", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False
    )
    assert "ragstone.service" not in done.stderr


@pytest.mark.skipif(
    not (shutil.which("nginx") and shutil.which("openssl")), reason="needs nginx and openssl"
)
def test_the_proxys_configuration_is_one_that_nginx_reads(tmp_path: Path) -> None:
    key, certificate, site = (tmp_path / name for name in ("key.pem", "cert.pem", "site.conf"))
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=rag.example.org",
         "-keyout", key, "-out", certificate], check=True, capture_output=True,
    )  # fmt: skip
    text = (
        (DEPLOY / "nginx.conf")
        .read_text()
        .replace("/etc/ssl/rag.example.org.pem", str(certificate))
    )
    site.write_text(text.replace("/etc/ssl/rag.example.org.key", str(key)))
    temporary = "".join(
        f"{kind}_temp_path {tmp_path}/{kind};" for kind in
        ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )  # fmt: skip
    whole = tmp_path / "nginx.conf"
    whole.write_text(f"pid {tmp_path}/pid; events {{}} http {{ {temporary} include {site}; }}")
    log = ["-g", f"error_log {tmp_path}/error.log;"]
    done = subprocess.run(
        ["nginx", "-t", "-c", whole, *log], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
