"""What is done with an order."""

from uproar.protocols.catalogue import PROTOCOLS, protocol_named
from uproar.protocols.declare import protocol, protocols
from uproar.protocols.protocol import Masks, Protocol

__all__ = ["PROTOCOLS", "Masks", "Protocol", "protocol", "protocol_named", "protocols"]
