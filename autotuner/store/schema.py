"""The tables of a results database. Times are ISO 8601 text in UTC: they sort alike everywhere."""

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

VERSION = 4

METADATA = MetaData()

IMPORTED = "imported"
"""The key of runs that another store measured. No run asks by it, so none goes on with them."""

# The name says whose it is: a study database, or a team's, may hold other programs' tables beside these.
SCHEMA = Table("autotune_schema", METADATA, Column("version", Integer, primary_key=True, autoincrement=False))

RUNS = Table(
    "runs",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("kind", Text),
    Column("parent", Text, index=True),
    Column("key", Text, nullable=False, index=True),
    Column("workspace", Text, nullable=False),
    Column("command", JSON, nullable=False),
    Column("problem", JSON, nullable=False),
    Column("target", Text, nullable=False),
    Column("device", Text, nullable=False),
    Column("seed", Integer, nullable=False),
    Column("status", Text, nullable=False),
    Column("started", Text, nullable=False),
    Column("ended", Text),
    Column("space_size", Integer),
    Column("result", JSON(none_as_null=True)),
)

ENVIRONMENT = Table(
    "environment",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("run", ForeignKey("runs.id"), nullable=False, index=True),
    Column("document", JSON, nullable=False),
)

CANDIDATES = Table(
    "candidates",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("run", ForeignKey("runs.id"), nullable=False),
    Column("ordinal", Integer, nullable=False),
    Column("config_key", Text, nullable=False),
    Column("config", JSON, nullable=False),
    Column("kind", Text, nullable=False),
    Column("route", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("duplicate_of", ForeignKey("candidates.id")),
    Column("failure", Text, nullable=False),
    Column("stderr", Text, nullable=False),
    Column("error", Float),
    Column("us", Float),
    Column("spec", Text, nullable=False),
    UniqueConstraint("run", "ordinal"),
)

BUILDS = Table(
    "builds",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("candidate", ForeignKey("candidates.id"), nullable=False, index=True),
    Column("seconds", Float, nullable=False),
    Column("cached", Boolean, nullable=False),
    Column("binary", Text, nullable=False),
    Column("applied", Integer, nullable=False),
    Column("command", JSON, nullable=False),
    Column("vmfb", Text, nullable=False),
    Column("isa", JSON(none_as_null=True)),
)

TIMINGS = Table(
    "timings",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("candidate", ForeignKey("candidates.id"), nullable=False, index=True),
    Column("phase", Text, nullable=False),
    Column("block", Integer, nullable=False),
    Column("repetitions_us", JSON, nullable=False),
    Column("time", Text, nullable=False),
    Column("conditions", JSON(none_as_null=True)),
)

VERDICTS = Table(
    "verdicts",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("run", ForeignKey("runs.id"), nullable=False, index=True),
    Column("verdict", Text, nullable=False),
    Column("document", JSON, nullable=False),
)

WRITERS = Table(
    "autotune_writers",
    MetaData(),
    Column("client", Text, primary_key=True),
    Column("last", Integer, nullable=False),
    Column("time", Text, nullable=False),
)
"""On a server: the number of the last write that each client has committed. It is no result; older programs do without
it, and the first write makes it."""

ADDED = {2: (BUILDS.c.isa,), 3: (RUNS.c.kind, RUNS.c.parent), 4: (TIMINGS.c.conditions,)}
"""Version -> the columns that it brought. They may be null: older rows do not have them."""
