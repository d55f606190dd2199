"""Protocols: what is removed under a ranking of pixels, whether networks are retrained, and how the result is read."""

from uproar.protocols.catalogue import PROTOCOLS, protocol_named
from uproar.protocols.protocol import Masks, Protocol
from uproar.protocols.registry import protocol, protocols

__all__ = ["PROTOCOLS", "Masks", "Protocol", "protocol", "protocol_named", "protocols"]
