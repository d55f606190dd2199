"""How shapes and types are checked in `make shapes`: beartype, with int accepted for float."""

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
