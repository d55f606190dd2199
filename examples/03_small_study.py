"""A whole remove-and-retrain study from Python, resumable, with verdicts and a report."""

import uproar

study = uproar.Study(
    name="planted-pixels",
    tasks=("planted(size=10, train=200, test=100)",),
    estimators=("random", "sobel", "sq(grad)", "sg_sq(grad)"),
    protocols=("roar", "roar:no-retrain"),
    fractions=(0.1, 0.3),
    seeds=(0, 1, 2),
    recipe=uproar.Recipe(epochs=3),
)
results = uproar.run(study, store="store", jobs=1)
print(results.verdicts[["protocol", "estimator", "advantage", "low", "high", "verdict"]].to_string(index=False))
print("report:", results.report("planted-pixels"))
