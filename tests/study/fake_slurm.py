"""SLURM as a submitter sees it: sbatch, srun, sacct and scancel that run tasks as processes of this machine."""

from __future__ import annotations

import sys
from pathlib import Path

SBATCH = """
import os, re, subprocess, sys, pathlib
text = pathlib.Path(sys.argv[1]).read_text()
pathlib.Path(STATES, f"asked-{os.getpid()}").write_text(text)
array = re.search(r"--array=0-(\\d+)", text)
number = str(os.getpid())
for k in range(int(array[1]) + 1 if array else 1):
    name = f"{number}_{k}" if array else number
    env = {**os.environ, "SLURM_JOB_ID": number, **({"SLURM_ARRAY_JOB_ID": number, "SLURM_ARRAY_TASK_ID": str(k)} if array else {})}
    wrapped = f"bash {sys.argv[1]}; echo FAILED > {STATES}/{name}"
    process = subprocess.Popen(["bash", "-c", wrapped], env=env, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    pathlib.Path(STATES, name).write_text(f"RUNNING {process.pid}")
print("Submitted batch job", number)
"""
SRUN = """
import os, sys
words = sys.argv[1:]
while words[0].startswith("--"):
    words = words[2:] if words[0] in ("--output", "--error") else words[1:]
os.execvp(words[0], words)
"""
SACCT = """
import pathlib
print("JobID|State|NodeList")
for file in pathlib.Path(STATES).iterdir():
    if not file.name.startswith("asked"):
        print(f"{file.name}|{(file.read_text().split() or ['RUNNING'])[0]}|here")
"""
SCANCEL = """
import os, pathlib, signal, sys
said = pathlib.Path(STATES, sys.argv[1]).read_text().split()
if said[0] == "RUNNING":
    os.killpg(int(said[1]), signal.SIGKILL)
    pathlib.Path(STATES, sys.argv[1]).write_text("CANCELLED")
"""


def install(folder: Path) -> Path:
    """Put the commands into a folder for the PATH; what was asked is in `states/asked-*`."""
    states = folder / "states"
    states.mkdir(parents=True)
    for name, code in (("sbatch", SBATCH), ("srun", SRUN), ("sacct", SACCT), ("scancel", SCANCEL)):
        file = folder / name
        file.write_text(f"#!{sys.executable}\nSTATES = {str(states)!r}\n{code}")
        file.chmod(0o755)
    return states
