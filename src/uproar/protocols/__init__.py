"""What is done with an order."""

from uproar.protocols.known import PROTOCOLS, protocol_named
from uproar.protocols.protocol import Masks, Protocol

__all__ = ["PROTOCOLS", "Masks", "Protocol", "protocol_named"]
