"""A study on a SLURM cluster, from Python. Without a cluster it is rehearsed with two processes instead of nodes.

On a login node: python cluster.py partition=gpu,time=4h,workers=32
"""

import sys

import uproar

STUDY = {  # small, for a rehearsal
    "name": "on-a-cluster",
    "task": "planted(size=8, train=64, test=32)",
    "estimators": ["random", "grad"],
    "metrics": ["roar"],
    "fractions": [0.3],
    "seeds": 2,  # five for a verdict
    "recipe": {"epochs": 2},
}

if __name__ == "__main__":
    slurm = sys.argv[1] if len(sys.argv) > 1 else "cluster=local,workers=2"
    run = uproar.run(STUDY, store="shared/store", slurm=slurm)  # all nodes must see the store; again: resumes
    print(run.table.groupby(["metric", "method"])["value"].mean().unstack())
