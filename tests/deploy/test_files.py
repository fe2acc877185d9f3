"""The deployment files name things that exist: settings, metrics, commands."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import yaml

from ragstone.observe import metrics
from ragstone.settings import load_settings

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
    loaded = load_settings(environ={})
    names = {name for setting in loaded.listing for name in setting.names}
    for file in ("compose.yaml", "compose.cluster.yaml"):
        service = yaml.safe_load((DEPLOY / file).read_text())["services"]["ragstone"]
        assert set(service["environment"]) <= names, file
        assert service["command"][0] == "serve"


def test_the_dockerfile_and_the_unit_name_variables_that_are_settings() -> None:
    loaded = load_settings(environ={})
    names = {name for setting in loaded.listing for name in setting.names}
    for file in ("Dockerfile", "ragstone.service"):
        used = set(re.findall(r"\b(RAGSTONE_[A-Z_]+)", (DEPLOY / file).read_text()))
        assert used <= names, file
