"""Nothing of the current folder runs: modules there, and what a ``solvers.toml`` there names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import lipyomo

NAMES = (
    "queue", "random", "numpy", "pickle", "struct", "selectors", "signal", "threading", "logging",
    "multiprocessing", "concurrent", "scipy", "cvxpy", "gurobipy", "sitecustomize", "argparse",
    "lipyomo_check", "typing", "enum", "__future__",
)  # fmt: skip
HOME = str(Path(lipyomo.__file__).resolve().parents[1])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of modules that say that they were run."""
    for name in NAMES:
        text = f"open({str(tmp_path / 'harm')!r}, 'a').write({name!r} + ' ')\n"
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


def run(
    folder: Path, *words: object, path: str = HOME, safe: bool = True
) -> subprocess.CompletedProcess[str]:
    """The command in that folder, as its own script would run it, or by ``python -m`` alone."""
    return subprocess.run(
        [sys.executable, *["-P"] * safe, "-m", "lipyomo", *map(str, words)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300.0,
    )


COMMANDS = {
    "compare": ("--box", "0,1", "--methods", "bnb", "--time-limit", "60"),
    "isolated": ("--box", "0,1", "--method", "lipsdp"),
    "workers": ("--box", "0,1", "--method", "bnb", "--workers", "2"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_modules_of_the_current_folder_do_not_run(folder: Path, models: Path, command: str) -> None:
    """Nor by ``python -m`` alone, which looks there first; a sweep below has the option ``-P``."""
    net = models / "iris.onnx"
    first = ["compare", net] if command == "compare" else [net]
    ran = run(folder, *first, *COMMANDS[command], safe=False)
    assert ran.returncode == 0, ran.stderr
    assert "failed" not in ran.stdout
    assert not (folder / "harm").exists()


def test_a_folder_that_the_python_path_names_is_used(tmp_path: Path, models: Path) -> None:
    """Adapters of one's own are found there, though it is the current folder as well."""
    (tmp_path / "own.py").write_text("print('here'); raise ImportError('no more')\n")
    (tmp_path / "own.toml").write_text("[solver.own]\nbackend = 'own:Solver'\n")
    words = models / "iris.onnx", "--box", "0,1", "--method", "mip", "--solver", "own"
    words = *words, "--solvers-file", "own.toml"
    named = run(tmp_path, *words, path=f"{HOME}{os.pathsep}{tmp_path}", safe=False)
    assert "here" in named.stdout + named.stderr, named.stderr


def test_modules_of_the_current_folder_do_not_run_in_a_sweep(folder: Path, models: Path) -> None:
    np.save(folder / "points.npy", np.random.default_rng(0).uniform(0, 8, (3, 4)))
    ran = run(
        folder, "sweep", models / "iris.onnx", "points.npy", "--radius", ".1", "--workers", "2"
    )
    assert ran.returncode == 0, ran.stderr
    assert not (folder / "harm").exists()


CHECKED = """
import multiprocessing
from lipyomo_check import check_proof
if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    print(check_proof({proof!r}, workers=2).upper_proved)
"""


def test_modules_of_the_current_folder_do_not_run_in_a_check(tmp_path: Path, models: Path) -> None:
    proof, here, script = tmp_path / "p", tmp_path / "here", tmp_path / "script.py"
    assert run(tmp_path, models / "iris.onnx", "--box", "0,1", "--proof", proof).returncode == 0
    here.mkdir()
    for name in NAMES:
        (here / f"{name}.py").write_text(f"open({str(tmp_path / 'harm')!r}, 'a').write({name!r})\n")
    script.write_text(CHECKED.format(proof=str(proof)))
    ran = subprocess.run([sys.executable, script], cwd=here, capture_output=True, text=True)
    assert ran.stdout.strip() == "True", ran.stderr
    assert not (tmp_path / "harm").exists()


def test_an_empty_entry_of_the_python_path_does_not_name_the_current_folder(
    folder: Path, models: Path
) -> None:
    script = (
        "import sys; from lipyomo.base.system.processes import import_path; import os;"
        "print(os.getcwd() in import_path())"
    )
    for path, named in ((os.pathsep + "/nowhere", "False"), (str(folder), "True")):
        quiet = {**os.environ, "PYTHONPATH": path}
        for name in NAMES:
            (folder / f"{name}.py").unlink(missing_ok=True)
        ran = subprocess.run(
            [sys.executable, "-P", "-c", script],
            cwd=folder,
            env=quiet,
            capture_output=True,
            text=True,
        )
        assert ran.stdout.strip() == named, ran.stderr


HELPED = """
from lipyomo.base.system.processes import in_process
import sys
sys.path.insert(0, {extra!r})
import extra_module
print(in_process(extra_module.double, 21, stop=lambda: False))
"""


def test_folders_that_were_named_are_kept(tmp_path: Path) -> None:
    extra, here = tmp_path / "extra", tmp_path / "here"
    extra.mkdir()
    here.mkdir()
    (extra / "extra_module.py").write_text("def double(x):\n    return 2 * x\n")
    ran = subprocess.run(
        [sys.executable, "-c", HELPED.format(extra=str(extra))],
        cwd=here,
        capture_output=True,
        text=True,
    )
    assert ran.stdout.strip() == "42", ran.stderr
    script = here / "script.py"
    (here / "beside.py").write_text("def double(x):\n    return 2 * x\n")
    script.write_text(
        "from lipyomo.base.system.processes import in_process\nimport beside\n"
        "print(in_process(beside.double, 21, stop=lambda: False))\n"
    )
    ran = subprocess.run([sys.executable, script], cwd=here, capture_output=True, text=True)
    assert ran.stdout.strip() == "42", ran.stderr


@pytest.mark.parametrize("safe", [True, False])
def test_a_program_runs_from_its_own_folder(models: Path, safe: bool) -> None:
    words = "compare", models / "iris.onnx", "--box", "0,1", "--methods", "naive"
    ran = run(Path(HOME), *words, path=HOME if safe else "", safe=safe)
    assert ran.returncode == 0, ran.stderr
    assert "failed" not in ran.stdout
