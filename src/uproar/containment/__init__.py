"""Code of the user, run so that it cannot change what others share.

`guarded_call` hands copies to a function of the user and takes a copy back. `contained` surrounds any code of the user:
the state of the process comes back afterwards (`process`), and a model that was changed is put back and noticed
(`model`).
"""

from uproar.containment.copies import private_copy
from uproar.containment.guard import (
    contained,
    contained_call,
    guarded_call,
    is_builtin,
    loading,
    recording_restored,
    seeded_with,
)
from uproar.containment.model import ModelState
from uproar.containment.process import ProcessState, seeded_generators

__all__ = [
    "ModelState",
    "ProcessState",
    "contained",
    "contained_call",
    "guarded_call",
    "is_builtin",
    "loading",
    "private_copy",
    "recording_restored",
    "seeded_generators",
    "seeded_with",
]
