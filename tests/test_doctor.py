"""python -m tensorx doctor, and what importing says."""

import json
import subprocess
import sys


def test_doctor_runs():
    run = subprocess.run([sys.executable, "-m", "tensorx", "doctor"], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert "instruction set:" in run.stdout and "metal available:" in run.stdout


def test_report_is_json():
    run = subprocess.run([sys.executable, "-m", "tensorx", "doctor", "--report"], capture_output=True, text=True, timeout=60)
    facts = json.loads(run.stdout)
    assert facts["devices"][0]["name"] == "cpu" and facts["self test"]["cpu"].startswith("ok")


def test_a_stranger_called_tensorx_is_warned_about(tmp_path):
    """The PyPI package tensorx would overwrite this one's files."""
    code = f"""
import os, sys, warnings
import tensorx
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    os.makedirs({str(tmp_path)!r} + "/tensorx-0.12.0.dist-info")
    tensorx._warn_of_stranger({str(tmp_path)!r})
assert len(seen) == 1 and "another project" in str(seen[0].message), seen
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
