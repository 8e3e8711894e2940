"""Encrypts a file of any size with a passphrase: AES-GCM in pieces, each bound to its place and to the header.

The construction is STREAM (Hoang, Reyhanitabar, Rogaway, Vizár 2015): the nonce of a piece holds its number and whether
it is the last, so that pieces that were exchanged, left out or cut off are noticed. The key comes from the passphrase
by scrypt (RFC 7914).
"""

from __future__ import annotations

import io
import os
from typing import IO, Any

from ..course import CourseError

MAGIC = b"autograde-backup-1\n"
PIECE = 1 << 20
"""Bytes of a piece before it is encrypted; 16 more after."""
_SALT, _PREFIX, _TAG = 16, 7, 16
_SCRYPT = {"length": 32, "n": 2**15, "r": 8, "p": 1}


class EncryptedWriter(io.RawIOBase):
    """A file to write to; what is written goes encrypted into another. Close it, or the last piece is missing."""

    def __init__(self, file: IO[bytes], passphrase: str) -> None:
        self._file, self._waiting, self._number = file, bytearray(), 0
        salt, self._prefix = os.urandom(_SALT), os.urandom(_PREFIX)
        self._header = MAGIC + salt + self._prefix
        self._cipher = _cipher(passphrase, salt)
        file.write(self._header)

    def writable(self) -> bool:
        """Always."""
        return True

    def write(self, content: object, /) -> int:
        """Take bytes; a piece is written when more than one is there."""
        new = bytes(content)  # type: ignore[call-overload]
        self._waiting += new
        while len(self._waiting) > PIECE:
            self._put(bytes(self._waiting[:PIECE]), last=False)
            del self._waiting[:PIECE]
        return len(new)

    def close(self) -> None:
        """Write the last piece; the other file stays open."""
        if not self.closed:
            self._put(bytes(self._waiting), last=True)
        super().close()

    def _put(self, piece: bytes, *, last: bool) -> None:
        self._file.write(self._cipher.encrypt(_nonce(self._prefix, self._number, last), piece, self._header))
        self._number += 1


class EncryptedReader(io.RawIOBase):
    """What an EncryptedWriter wrote, as a file to read. Raises CourseError for a wrong passphrase or a changed file."""

    def __init__(self, file: IO[bytes], passphrase: str) -> None:
        self._file, self._left, self._number, self._ended = file, b"", 0, False
        self._header = file.read(len(MAGIC) + _SALT + _PREFIX)
        self._prefix = self._header[-_PREFIX:]
        self._cipher = _cipher(passphrase, self._header[len(MAGIC) : -_PREFIX])
        self._next = file.read(PIECE + _TAG)

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: object, /) -> int:
        """Fill a buffer with what was encrypted."""
        view = memoryview(buffer)  # type: ignore[arg-type]
        if not self._left and not self._ended:
            self._left = self._take()
        count = min(len(view), len(self._left))
        view[:count] = self._left[:count]
        self._left = self._left[count:]
        return count

    def _take(self) -> bytes:
        from cryptography.exceptions import InvalidTag

        piece, self._next = self._next, self._file.read(PIECE + _TAG)
        self._ended = not self._next
        try:
            return bytes(self._cipher.decrypt(_nonce(self._prefix, self._number, self._ended), piece, self._header))
        except InvalidTag:
            cause = "the passphrase is wrong, or the file is damaged" if self._number == 0 else "the file is damaged"
            raise CourseError(f"the backup cannot be decrypted: {cause}. Nothing was restored.") from None
        finally:
            self._number += 1


def _nonce(prefix: bytes, number: int, last: bool) -> bytes:
    return prefix + number.to_bytes(4, "big") + bytes([last])


def _cipher(passphrase: str, salt: bytes) -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
    except ImportError:
        raise CourseError(
            "encryption needs the package `cryptography`, which is not installed: pip install -e '.[instructor]'."
        ) from None
    return AESGCM(Scrypt(salt=salt, **_SCRYPT).derive(passphrase.encode()))
