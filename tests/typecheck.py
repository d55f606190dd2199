"""How shapes and types are checked while the tests run: beartype, with int accepted for float.

It checks one element of a list, drawn at random. It draws from a generator of its own here: the tests also look whether
code uses Python's global one.
"""

import random

from beartype import BeartypeConf, beartype
from beartype._check.code import codemain

if codemain.getrandbits is random.getrandbits:  # once, though pytest imports this file under two names
    codemain.getrandbits = random.Random(0).getrandbits

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
