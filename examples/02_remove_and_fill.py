"""Remove exactly 30 % of the pixels, most important first, and see what the network says of the rest."""

import uproar

task = uproar.load("planted(size=12, train=512, test=64)")
model = uproar.build("cnn-small", task)
uproar.fit(model, task.train.read(slice(None)), task.train.labels, uproar.Recipe(epochs=6), seed=0)

x, y = task.test.read(slice(None)), task.test.labels
print(f"accuracy with all pixels: {(uproar.predict(model, x).argmax(1) == y).float().mean():.2f}")
for estimator in ("random", "sq(grad)"):
    gone = uproar.removed(uproar.explain(model, x, estimator), 0.3)
    assert (gone.sum((1, 2)) == round(0.3 * 12 * 12)).all()
    changed = uproar.fill(x, gone, "mean", value=task.mean)
    correct = (uproar.predict(model, changed).argmax(1) == y).float().mean()
    print(f"accuracy without the {int(gone[0].sum())} pixels {estimator} ranks first: {correct:.2f}")
