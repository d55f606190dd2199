"""Which pixels does a network look at? Train one on digits and compare three estimators on four images."""

import uproar

task = uproar.load("digits")
model = uproar.build("cnn-small", task, seed=0)
uproar.fit(model, task.train.read(slice(None)), task.train.labels, uproar.Recipe(epochs=4), seed=0)

x = task.test.read(slice(0, 4))
maps = uproar.explain(model, x, ["grad", "ig", "sg_sq(grad)"], seed=0)
for name, a in maps.items():
    row, column = divmod(int(a[0].argmax()), a.shape[2])
    print(f"{name:12} map {tuple(a.shape)}, most important pixel of image 0: row {row}, column {column}")
