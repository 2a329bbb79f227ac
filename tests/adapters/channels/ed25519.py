"""Ed25519 as RFC 8032 writes it down, slow and for tests alone: it plays Discord, and checks what is handed to a real one."""

from __future__ import annotations

import hashlib

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
ROOT = pow(2, (P - 1) // 4, P)

Point = tuple[int, int, int, int]


def _add(a: Point, b: Point) -> Point:
    e, f = (a[1] - a[0]) * (b[1] - b[0]) % P, (a[1] + a[0]) * (b[1] + b[0]) % P
    g, h = 2 * a[3] * b[3] * D % P, 2 * a[2] * b[2] % P
    i, j, k, m = f - e, h - g, h + g, f + e
    return (i * j % P, k * m % P, j * k % P, i * m % P)


def _times(scalar: int, point: Point) -> Point:
    total: Point = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            total = _add(total, point)
        point, scalar = _add(point, point), scalar >> 1
    return total


def _x(y: int, sign: int) -> int | None:
    squared = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(squared, (P + 3) // 8, P)
    if (x * x - squared) % P:
        x = x * ROOT % P
    if (x * x - squared) % P or y >= P or (x == 0 and sign):
        return None
    return P - x if x & 1 != sign else x


BASE_Y = 4 * pow(5, P - 2, P) % P
BASE_X = _x(BASE_Y, 0) or 0
BASE: Point = (BASE_X, BASE_Y, 1, BASE_X * BASE_Y % P)


def _packed(point: Point) -> bytes:
    inverse = pow(point[2], P - 2, P)
    return ((point[1] * inverse % P) | ((point[0] * inverse % P & 1) << 255)).to_bytes(32, "little")


def _unpacked(data: bytes) -> Point | None:
    y = int.from_bytes(data, "little")
    sign, y = y >> 255, y & ((1 << 255) - 1)
    x = _x(y, sign)
    return None if x is None else (x, y, 1, x * y % P)


def _number(*parts: bytes) -> int:
    return int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little") % L


def _expanded(secret_key: bytes) -> tuple[int, bytes]:
    digest = hashlib.sha512(secret_key).digest()
    return int.from_bytes(digest[:32], "little") & ((1 << 254) - 8) | (1 << 254), digest[32:]


def public_key_of(secret_key: bytes) -> bytes:
    return _packed(_times(_expanded(secret_key)[0], BASE))


def sign(secret_key: bytes, message: bytes) -> bytes:
    scalar, prefix = _expanded(secret_key)
    once = _number(prefix, message)
    point = _packed(_times(once, BASE))
    return point + ((once + _number(point, public_key_of(secret_key), message) * scalar) % L).to_bytes(32, "little")


def is_signed(public_key: bytes, signature: bytes, message: bytes) -> bool:
    key, point, scalar = _unpacked(public_key), _unpacked(signature[:32]), int.from_bytes(signature[32:], "little")
    if key is None or point is None or scalar >= L:
        return False
    return _packed(_times(scalar, BASE)) == _packed(_add(point, _times(_number(signature[:32], public_key, message), key)))
