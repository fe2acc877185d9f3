"""The pods of the Kubernetes file get only the variables that the file names."""

from __future__ import annotations

from pathlib import Path

import yaml

FILE = Path(__file__).parents[2] / "deploy" / "kubernetes.yaml"


def test_no_pod_gets_the_variables_of_the_service_which_are_named_like_settings() -> None:
    found = list(yaml.safe_load_all(FILE.read_text("utf-8")))
    pods = [one["spec"]["template"]["spec"] for one in found if one["kind"] == "Deployment"]
    assert len(pods) == 2
    assert all(pod["enableServiceLinks"] is False for pod in pods)
