"""Protocols: what is removed under a ranking of pixels, whether networks are retrained, and how the result is read."""

from uproar.protocols.catalogue import PROTOCOLS, protocol, protocol_named, protocols
from uproar.protocols.protocol import Masks, Protocol

__all__ = ["PROTOCOLS", "Masks", "Protocol", "protocol", "protocol_named", "protocols"]
