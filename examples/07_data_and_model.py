"""True to the data or true to the model? Two cues say the same, and the network uses one of them.

A map of the cue that the network uses and a map of the other are compared by two judges. Deletion asks this network:
only the first map shows what it uses. Remove and retrain asks the data: without either cue alone the other still
tells the class, so that neither map is better. Both are right; they answer different questions.
"""

import torch
from torch import nn

import uproar
from uproar.metrics.registry import QUESTIONS
from uproar.protocols import protocol_named

RECIPE = uproar.Recipe(epochs=8)


class LeftHalf(nn.Module):
    """A network that sees the left half of an image; the right half is black to it."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        left = torch.arange(x.shape[3], device=x.device) < x.shape[3] // 2
        return self.network(x * left)


def accuracy_without(task, masks, seed=0):
    """Test accuracy of a fresh network trained and tested without some pixels, by split."""
    images = {s.name: uproar.fill(s.read(slice(None)), masks[s.name], value=task.mean) for s in (task.train, task.test)}
    fresh = uproar.fit(uproar.build("cnn-small", task, seed), images["train"], task.train.labels, RECIPE, seed)
    return float((uproar.predict(fresh, images["test"]).argmax(1) == task.test.labels).float().mean())


task = uproar.load("planted-redundant(size=16, classes=4, train=1536, test=128)")
model = LeftHalf(uproar.build("cnn-small", task))
uproar.fit(model, task.train.read(slice(None)), task.train.labels, RECIPE, 0)

left = torch.arange(16) < 8
cues = {  # the pixels of each cue, by split
    name: {split.name: split.masks & side for split in (task.train, task.test)}
    for name, side in {"used cue": left, "other cue": ~left}.items()
}
x, y = task.test.read(slice(None)), task.test.labels
maps = {name: masks["test"].float() for name, masks in cues.items()}
deletion = uproar.score(model, x, y, maps, ["deletion"], mean=task.mean).set_index("method")["value"]

both = {split: cues["used cue"][split] | cues["other cue"][split] for split in ("train", "test")}
retrained = {name: accuracy_without(task, masks) for name, masks in (*cues.items(), ("both cues", both))}

print(f"deletion is true to {QUESTIONS['model']}")
print(f"ROAR is true to {QUESTIONS[protocol_named('roar').true_to]}")
print("map          deletion (lower is better)   accuracy retrained without it (lower is better)")
for name, accuracy in retrained.items():
    area = f"{deletion[name]:.2f}" if name in deletion else "–"
    print(f"{name:<12} {area:<28} {accuracy:.2f}")
assert deletion["used cue"] < deletion["other cue"] - 0.1  # the network uses one of them
assert min(retrained[name] for name in cues) > retrained["both cues"] + 0.2  # either alone can be done without
