"""PostgreSQL's errors in our words."""

from __future__ import annotations

import asyncpg

from cortex_plane.errors import Conflict, Contended, CortexError, DatabaseConfigError, InvalidInput, StorageFull, Unavailable

# The connection is gone or the server is not ready: the same statement may be tried on a new connection.
BROKEN = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.DatabaseDroppedError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.IdleSessionTimeoutError,
    asyncpg.TooManyConnectionsError,
    asyncpg.ReadOnlySQLTransactionError,
)

# The server chose this transaction to give way, or an operator cancelled it: it was undone as a whole and may be repeated.
GAVE_WAY = (
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.LockNotAvailableError,
    asyncpg.QueryCanceledError,
)


def translate(error: BaseException, where: str) -> CortexError:
    match error:
        case asyncpg.InvalidCatalogNameError():
            return DatabaseConfigError(f"{where}: the database does not exist. Create it, or correct CORTEX_DATABASE_URL.")
        case asyncpg.InvalidPasswordError() | asyncpg.InvalidAuthorizationSpecificationError():
            return DatabaseConfigError(f"{where}: the server refused this user or password. Correct CORTEX_DATABASE_URL.")
        case asyncpg.UndefinedTableError() | asyncpg.InvalidSchemaNameError() | asyncpg.UndefinedFunctionError():
            return DatabaseConfigError(
                f"{where} has no Cortex Plane schema, or an older one. Run: cortex db upgrade", by_statement=True
            )
        case asyncpg.InsufficientPrivilegeError():
            return DatabaseConfigError(
                f"{where}: this user may not do that: {error}. Grant it, or use another user.", by_statement=True
            )
        case asyncpg.DiskFullError():
            return StorageFull(where)
        case asyncpg.DataError() | asyncpg.NotNullViolationError() | asyncpg.ForeignKeyViolationError():
            return InvalidInput(f"The database refused it: {error}")
        case asyncpg.IntegrityConstraintViolationError():
            return Conflict(f"The database refused it: {error}")
        case asyncpg.LockNotAvailableError() | asyncpg.DeadlockDetectedError() | asyncpg.SerializationError():
            return Contended(f"{where}: another transaction holds what this one needs: {error}. Try again.")
        case asyncpg.RaiseError():
            return Conflict(f"The database refused it: {error}")
        case asyncpg.PostgresError() if not isinstance(error, BROKEN):
            return Unavailable(f"{where} failed: {type(error).__name__}: {error}", by_statement=True)
        case _:
            return Unavailable(f"{where} does not answer: {type(error).__name__}: {error}. Is the server running?")
