"""Signatures by Ed25519. The library is imported when the first one is checked."""

from __future__ import annotations


def is_signed(public_key: bytes, signature: bytes, message: bytes) -> bool:
    """Whether the owner of the key signed this message so."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True
