"""Which network addresses belong to the public Internet, and which lead to ourselves or our neighbours."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

# Addresses of the old network inside those of the new one, as translators (RFC 6052) write them.
_TRANSLATED = IPv6Network("64:ff9b::/96")


def is_public(address: str) -> bool:
    """False for private, loopback, link-local, multicast and reserved addresses, however they are wrapped."""
    return all(one.is_global and not one.is_multicast for one in _layers(ip_address(address)))


def is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _layers(address: IPv4Address | IPv6Address) -> list[IPv4Address | IPv6Address]:
    """The address that packets reach in the end, and every one on the way."""
    if isinstance(address, IPv4Address):
        return [address]
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]  # Only a way of writing it: the outer form is never on the wire.
    if address in _TRANSLATED:
        return [IPv4Address(int(address) & 0xFFFF_FFFF)]
    wrapped = [address.sixtofour, *(address.teredo or ())]
    return [address, *(one for one in wrapped if one is not None)]
