"""The rights of a role that uses the tables, but does not own them."""

from typing import Final

from psycopg import sql

from plantstore.errors import OperationError
from plantstore.storage.postgres.connection import Connection
from plantstore.storage.postgres.faults import lacking

# The role also needs USAGE on the schema. No table has a sequence.
RIGHTS: Final = {
    "plants": ("SELECT", "INSERT", "UPDATE", "DELETE"),
    "tokens": ("SELECT", "INSERT", "UPDATE", "DELETE"),
    "handed_out_ids": ("SELECT", "INSERT", "UPDATE"),
    "totals": ("SELECT", "INSERT", "UPDATE"),
    "plantstore_markers": ("SELECT", "INSERT", "UPDATE"),
    "plantstore_migrations": ("SELECT",),
}

# Without USAGE on the schema, the role has no table.
_MISSING: Final = """
SELECT given.name, given.right_ FROM unnest(%s::text[], %s::text[]) AS given (name, right_)
WHERE has_table_privilege(coalesce(%s, current_user), to_regclass(given.name), given.right_)
    IS NOT TRUE
"""

_SCHEMA: Final = """
SELECT nspname FROM pg_namespace JOIN pg_class ON relnamespace = pg_namespace.oid
WHERE pg_class.oid = to_regclass('plantstore_migrations')
"""


def insist_on_rights(connection: Connection, what: str, role: str | None = None) -> None:
    """Raise StoreUnavailableError if a role lacks a right.

    Args:
        connection: to the database.
        what: the beginning of the message.
        role: None for the role of the connection.

    """
    tables, rights = zip(
        *((table, right) for table, rights in RIGHTS.items() for right in rights), strict=True
    )
    missing = connection.execute(_MISSING, (list(tables), list(rights), role)).fetchall()
    if missing:
        named = ", ".join(f"{right} on {table}" for table, right in missing)
        raise lacking(what, f"the role lacks {named}")


def insist_on_role(connection: Connection, role: str) -> None:
    """Raise OperationError if there is no such role."""
    known = "SELECT FROM pg_roles WHERE rolname = %s"
    if not role.isprintable() or not connection.execute(known, (role,)).fetchall():
        raise OperationError(f"There is no role {role!r}; create it first, with CREATE ROLE")


def grant(connection: Connection, role: str) -> None:
    """Give a role all rights, on the tables of the newest schema.

    Raises:
        StoreUnavailableError: the role of the connection may not grant them.

    """
    with connection.transaction():
        [[schema]] = connection.execute(_SCHEMA)
        names = {"schema": sql.Identifier(schema), "role": sql.Identifier(role)}
        connection.execute(sql.SQL("GRANT USAGE ON SCHEMA {schema} TO {role}").format(**names))
        for table, rights in RIGHTS.items():
            statement = f"GRANT {', '.join(rights)} ON {table} TO {{role}}"
            connection.execute(sql.SQL(statement).format(**names))
        # PostgreSQL only warns if a role that is not the owner grants.
        query = "SELECT has_schema_privilege(%s, %s, 'USAGE')"
        [[has_usage]] = connection.execute(query, (role, schema))
        if not has_usage:
            raise lacking(f"The rights cannot be granted to {role}", f"USAGE on schema {schema}")
        insist_on_rights(connection, f"The rights cannot be granted to {role}", role)
