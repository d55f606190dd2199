"""What is done with an order."""

from uproar.protocols.retrain import PROTOCOLS, Protocol, protocol_named

__all__ = ["PROTOCOLS", "Protocol", "protocol_named"]
