"""How shapes and types are checked by `make test` where it tests what works on arrays: beartype, with int accepted for float."""

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
