"""Files beside the answer: nothing of the user's is harmed, and the answer is always there."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cli_forks import Forks
from cli_ran import Ran

import lipyomo
from lipyomo.base.system.outputs import PROOF, written
from networks import random_network

Cli = Callable[..., Ran]
BOX = ("--box", "0,8")
FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="signals, links and limits of POSIX")


@pytest.fixture
def own(net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a network and files of a user's."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "me.onnx").write_bytes(net.read_bytes())
    (tmp_path / "data.csv").write_text("1,2,3,4\n5,6,7,8\n")
    (tmp_path / "notes.json").write_text("[1, 2]\n")
    (tmp_path / "photo.png").write_text("not a picture")
    np.save(tmp_path / "lo.npy", np.zeros(4))
    np.savez(tmp_path / "data.npz", inputs=np.ones((3, 4)))
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize(
    "words",
    [
        ("--proof", "me.onnx"),
        ("--proof", "./me.onnx"),
        ("--proof", "data.csv"),
        ("--checkpoint", "data.csv"),
        ("--checkpoint", "data.npz", "--overwrite"),
        ("--checkpoint", "me.onnx", "--resume"),
        ("--history", "data.csv"),
        ("--history", "notes.json"),
        ("--plot", "photo.png"),
        ("--proof", "new", "--checkpoint", "new"),
        ("--proof", "new", "--history", "./new.csv", "--checkpoint", "new.csv"),
        ("--proof", "."),
        ("--proof", ""),
        ("--proof", "none/new"),
        ("--proof", "me.onnx/new"),
        ("--proof", "x" * 5000),
        ("--checkpoint", "x" * 5000),
        ("--history", "x" * 5000 + ".csv"),
    ],
)
def test_what_must_not_be_written_is_refused_before_the_run(
    cli: Cli, own: Path, words: tuple[str, ...]
) -> None:
    before = contents(own)
    ran = cli("me.onnx", *BOX, *words)
    assert ran.code == 1
    assert ran.err.startswith("lipyomo: error: ")
    assert "defect" not in ran.err
    assert len(ran.err) < 1000
    assert ran.out == ""
    assert contents(own) == before


@pytest.mark.parametrize(
    "words",
    [
        ("x" * 5000, *BOX),
        ("x" * 5000 + ".onnx", *BOX),
        ("me.onnx", "--box", "x" * 5000 + ".npy,1"),
        ("certify", "me.onnx", "x" * 5000 + ".csv", "--radius", "0.1"),
        ("me.onnx", "--config", "x" * 5000),
        ("verify", "x" * 5000, "me.onnx"),
    ],
)
def test_names_that_are_too_long_to_read(cli: Cli, own: Path, words: tuple[str, ...]) -> None:
    ran = cli(*words)
    assert ran.code == 1
    assert ran.err.startswith("lipyomo: error: ")


@POSIX
def test_links_to_what_is_read_are_refused_as_well(cli: Cli, own: Path) -> None:
    os.symlink("me.onnx", "link")
    os.link("lo.npy", "hard")
    np.save("hi.npy", np.full(4, 8.0))
    before = contents(own)
    for words in (("--proof", "link"), ("--checkpoint", "hard")):
        ran = cli("me.onnx", "--box", "lo.npy,hi.npy", *words)
        assert ran.code == 1
        assert "is read as well" in ran.err
    assert contents(own) == before
    Path("run.toml").write_text('box = "0,8"\n')
    assert "read as well" in cli("me.onnx", "--config", "run.toml", "--proof", "run.toml").err
    assert Path("run.toml").read_text() == 'box = "0,8"\n'


@POSIX
def test_links_are_written_through_and_permissions_stay(cli: Cli, own: Path) -> None:
    (own / "far").mkdir()
    names = ("a.proof", "state", "h.csv", "p.png")
    for name in names:
        os.symlink(own / "far" / name, own / name)
    words = ("--proof", "a.proof", "--checkpoint", "state", "--history", "h.csv", "--plot", "p.png")
    assert cli("me.onnx", *BOX, *words).code == 0
    for name in names:
        assert (own / name).is_symlink()
        (own / "far" / name).chmod(0o640)
    first = contents(own / "far")
    assert cli("me.onnx", *BOX, *words, "--overwrite").code == 0
    for name in names:
        assert (own / name).is_symlink()
        assert stat.S_IMODE((own / "far" / name).stat().st_mode) == 0o640
    assert contents(own / "far").keys() == first.keys()
    assert cli("verify", "a.proof", "me.onnx").code == 0


@POSIX
def test_devices_and_pipes_are_written_to(cli: Cli, own: Path) -> None:
    os.symlink("/dev/null", "nothing")  # by a link, lest a defect harm the device itself
    ran = cli("me.onnx", *BOX, "--proof", "nothing", "--checkpoint", "nothing")
    assert ran.code == 0, ran.err
    assert Path("nothing").is_symlink()
    assert stat.S_ISCHR(os.stat("nothing").st_mode)
    os.mkfifo("pipe")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(Path("pipe").read_bytes()), daemon=True)
    reader.start()
    assert cli("me.onnx", *BOX, "--proof", "pipe").code == 0
    reader.join(60.0)
    Path("whole.proof").write_bytes(read[0])
    assert cli("verify", "whole.proof", "me.onnx").code == 0
    assert stat.S_ISFIFO(os.stat("pipe").st_mode)


@FULL
@pytest.mark.parametrize("option", ["--proof", "--checkpoint"])
def test_a_full_disk_leaves_the_answer(cli: Cli, own: Path, option: str) -> None:
    os.symlink("/dev/full", "full")  # by a link, lest a defect harm the device itself
    ran = cli("me.onnx", *BOX, "--json", option, "full")
    assert ran.code == 1
    assert ran.json["status"] == "exact"
    assert "lipyomo: warning: " in ran.err
    assert "No space left" in ran.err


@POSIX
@pytest.mark.parametrize(
    "words",
    [
        ("--proof", "a.proof"),
        ("--checkpoint", "state"),
        ("--history", "h.csv"),
        ("--plot", "p.png"),
    ],
)
def test_a_file_that_grows_too_large_leaves_the_answer_and_what_was_there(
    own: Path, forks: Forks, words: tuple[str, str]
) -> None:
    for there in (False, True):
        before = contents(own)
        last = "--overwrite" if words[0] == "--checkpoint" and there else "--quiet"
        ran = forks.run("me.onnx", *BOX, "--json", *words, last, file_size=LITTLE)
        assert ran.returncode == 1, ran.stderr
        assert json.loads(ran.stdout)["status"] == "exact"
        assert "lipyomo: warning: " in ran.stderr
        assert "too large" in ran.stderr
        assert contents(own) == before
        if not there:
            assert forks.run("me.onnx", *BOX, *words).returncode == 0


LITTLE = 40
"""Bytes; a semaphore, as Pyomo makes one, is a file of 32."""


@POSIX
@pytest.mark.parametrize("command", ["certify", "sweep"])
def test_rows_that_cannot_be_written_are_still_shown(own: Path, forks: Forks, command: str) -> None:
    words = ("me.onnx", "data.npz", "--radius", "0.01", "--workers", "1", "--json")
    assert forks.run(command, *words, "--rows", "whole.csv").returncode == 0
    size = (own / "whole.csv").stat().st_size
    ran = forks.run(command, *words, "--rows", "rows.csv", file_size=size - 30)
    assert ran.returncode == 1
    rows = json.loads(ran.stdout)["rows"]
    assert [row["index"] for row in rows] == [0, 1, 2]
    assert "lipyomo: warning: " in ran.stderr
    assert len((own / "rows.csv").read_text().splitlines()) == 3
    again = forks.run(command, *words, "--rows", "rows.csv")
    assert again.returncode == 0, again.stderr
    assert len((own / "rows.csv").read_text().splitlines()) == 4


@POSIX
@pytest.mark.parametrize("ending", ["csv", "jsonl", "npz"])
@pytest.mark.parametrize("until", [(), ("--until", "50%")])
def test_a_map_that_cannot_be_written_is_still_shown(
    own: Path, forks: Forks, ending: str, until: tuple[str, ...]
) -> None:
    plane = ("me.onnx", "--box", "0,8", "--axes", "0,1", "--at", "4", "--cells", "3x3")
    words = ("map", *plane, *until, "--json", "--quiet", "--rows")
    assert forks.run(*words, f"whole.{ending}").returncode == 0
    size = (own / f"whole.{ending}").stat().st_size
    ran = forks.run(*words, f"cells.{ending}", file_size=size - 30)
    assert ran.returncode == 1
    assert json.loads(ran.stdout)["cells"] == 9
    assert "lipyomo: warning: " in ran.stderr
    again = forks.run(*words, f"cells.{ending}")
    assert again.returncode == (1 if until and ending != "npz" else 0), again.stderr


def test_cells_that_are_chosen_go_into_a_new_file(cli: Cli, own: Path) -> None:
    words = ("map", "me.onnx", "--box", "0,1", "--cells", "2x2", "--until", "50%", "--rows")
    for name, trouble in (("data.csv", "not replaced"), ("none/c.csv", "no folder"), ("c", "end")):
        ran = cli(*words, name)
        assert ran.code == 1
        assert trouble in ran.err
    assert cli(*words, "cells.csv").code == 0
    before = (own / "cells.csv").read_bytes()
    ran = cli(*words, "cells.csv")
    assert ran.code == 1
    assert "is there" in ran.err
    assert (own / "cells.csv").read_bytes() == before


def test_a_checkpoint_is_not_replaced_unasked(cli: Cli, own: Path) -> None:
    words = ("me.onnx", *BOX, "--checkpoint", "state")
    assert cli(*words).code == 0
    before = contents(own)
    ran = cli(*words)
    assert ran.code == 1
    assert "--resume" in ran.err
    assert "--overwrite" in ran.err
    assert contents(own) == before
    assert cli(*words, "--resume").code == 0
    assert cli(*words, "--overwrite").code == 0
    assert "leave one out" in cli(*words, "--overwrite", "--resume").err
    assert "add --checkpoint" in cli("me.onnx", *BOX, "--overwrite").err


def fail(path: Path) -> None:
    with written(path, PROOF) as stream:
        stream.write(b"half")
        raise ZeroDivisionError


def test_a_body_that_fails_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.proof"
    for there in (b"", None):
        if there is not None:
            path.write_bytes(there)
        with pytest.raises(ZeroDivisionError):
            fail(path)
        assert list(tmp_path.iterdir()) == [path]
        assert path.read_bytes() == b""


SLOW = random_network(1, (6, 14, 14, 2))


@POSIX
def test_ctrl_c_while_a_proof_is_written_is_said(
    tmp_path: Path, forks: Forks, monkeypatch: pytest.MonkeyPatch
) -> None:
    lipyomo.to_onnx(SLOW, tmp_path / "net.onnx")
    monkeypatch.chdir(tmp_path)
    process = forks.start("net.onnx", "--box", "-1,1", "--proof", "net.proof", "--json")
    answer = process.stdout.readline()  # the answer comes before the proof
    while process.poll() is None and not list(tmp_path.glob(".net.proof*.part")):
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert json.loads(answer)["status"] == "exact"
    assert process.returncode == 2, err
    assert "Ctrl-C cut the proof short" in err
    assert "Traceback" not in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.onnx", "net.proof"]


@POSIX
@pytest.mark.parametrize(
    "words",
    [
        ("me.onnx", *BOX),
        ("certify", "me.onnx", "data.npz", "--radius", "0.1", "--workers", "2"),
    ],
)
def test_ctrl_c_while_a_command_starts_shows_no_traceback(
    own: Path, words: tuple[str, ...]
) -> None:
    program = (
        "import os, signal, sys\n"
        "class Finder:\n"
        "    left = int(sys.argv.pop(1))\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        self.left -= 1\n"
        "        if self.left == 0:\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "from lipyomo.cli import entry_point\n"
        "import lipyomo.cli.interrupt\n"
        "sys.meta_path.insert(0, Finder())\n"
        "entry_point()\n"
    )
    codes = set()
    for imports in (1, 2, 5, 10, 20, 40, 80, 160, 320):
        ran = subprocess.run(
            [sys.executable, "-c", program, str(imports), *words], capture_output=True, text=True
        )
        assert "Traceback" not in ran.stderr
        codes.add(ran.returncode)
        if ran.returncode == 2:
            assert "interrupted" in ran.stderr
    assert 2 in codes
    assert codes <= {0, 2}


@pytest.mark.parametrize(
    "words",
    [
        ("certify", "--exact", "--solver", "nope"),
        ("sweep", "--solver", "nope"),
        ("sweep", "--method", "mip", "--output-norm", "l2"),
    ],
)
def test_what_is_wrong_for_all_rows_is_one_error(
    cli: Cli, own: Path, words: tuple[str, ...]
) -> None:
    command, *more = words
    ran = cli(command, "me.onnx", "data.npz", "--radius", "0.1", "--quiet", *more)
    assert ran.code == 1
    assert ran.out == ""
    assert ran.err.count("\n") == 1
    assert ("nope" in ran.err) or ("cannot treat these problems" in ran.err)


def test_open_rows_are_said_and_done_with_more_time(cli: Cli, own: Path) -> None:
    lipyomo.to_onnx(random_network(0, (6, 30, 30, 3)), own / "hard.onnx")
    np.savez(own / "points.npz", inputs=np.random.default_rng(0).uniform(-1, 1, (3, 6)))
    words = (
        "sweep",
        "hard.onnx",
        "points.npz",
        "--radius",
        "3",
        "--workers",
        "1",
        "--rows",
        "r.csv",
    )
    first = cli(*words, "--time-limit", "0.3")
    assert first.code == 2
    assert "left open           3" in first.out
    assert "larger --time-limit than 0.3" in first.out
    same = cli(*words, "--time-limit", "0.2")
    assert same.code == 2
    assert "3 of 3 rows were there already" in same.err
    more = cli(*words, "--time-limit", "0.6", "--json")
    assert "were there already" not in more.err
    assert [row["index"] for row in json.loads(more.out)["rows"]] == [0, 1, 2]
    lines = (own / "r.csv").read_text().splitlines()
    assert len(lines) == 4
    assert json.loads((own / "r.csv.json").read_text())["run"]["solver"] == "auto"
    assert all(line.endswith(",0.6") for line in lines[1:])


def test_a_torn_last_line_is_said(cli: Cli, own: Path) -> None:
    words = ("sweep", "me.onnx", "data.npz", "--radius", "0.1", "--workers", "1", "--rows", "r.csv")
    assert cli(*words).code == 0
    whole = (own / "r.csv").read_bytes()
    (own / "r.csv").write_bytes(whole[:-7])
    ran = cli(*words)
    assert ran.code == 0
    assert "torn" in ran.err
    assert "2 of 3 rows were there already" in ran.err
    assert len((own / "r.csv").read_bytes().splitlines()) == len(whole.splitlines())


def test_a_config_key_does_not_suggest_itself(cli: Cli, own: Path) -> None:
    Path("run.toml").write_text('config = "other.toml"\n')
    ran = cli("me.onnx", "--config", "run.toml")
    assert ran.code == 1
    assert "did you mean 'config'" not in ran.err


def test_memory_that_runs_out_leaves_the_interval(cli: Cli, net: Path) -> None:
    ran = cli(net, *BOX, "--method", "starved", "--json")
    assert ran.code == 2, ran.err
    assert ran.json["upper"] == 200.0
    assert any("memory did not suffice" in warning for warning in ran.json["warnings"])
    nothing = cli(net, *BOX, "--method", "broken", "--option", "memory=true", "--json")
    assert nothing.code == 1
    assert "memory" in nothing.err


def test_memory_that_runs_out_in_a_search_leaves_its_interval(tmp_path: Path) -> None:
    problem = lipyomo.LipschitzProblem(
        random_network(1, (10, 14, 14, 2)), lipyomo.Box(0, 1, 10), "linf", "cross"
    )
    told: list[lipyomo.Progress] = []

    def starve(progress: lipyomo.Progress) -> None:
        told.append(progress)
        if progress.nodes >= 5:
            raise MemoryError

    result = lipyomo.solve(problem, "bnb", progress=starve, checkpoint=tmp_path / "state")
    assert any("memory did not suffice" in warning for warning in result.warnings)
    assert 0 < result.lower < result.upper <= told[0].upper
    again = lipyomo.solve(problem, "bnb", checkpoint=tmp_path / "state", resume=True)
    assert again.is_exact
    assert result.lower * (1 - 1e-9) <= again.lower <= result.upper
    assert again.nodes is not None
    assert again.nodes >= 5
