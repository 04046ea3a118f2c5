"""Gives a server a past: a history file (docs/history.md) with the last hour in it, so that a
test need not wait until there is one."""

import os, sqlite3, struct, time

STEP_S, WINDOW_S = 10, 3600
TABLES = """
PRAGMA application_id = 0x536c7565;
PRAGMA user_version = 1;
CREATE TABLE devices(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE metrics(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE samples(step INTEGER NOT NULL, device INTEGER NOT NULL, t INTEGER NOT NULL,
  data BLOB NOT NULL, PRIMARY KEY(step, device, t)) WITHOUT ROWID;
CREATE TABLE kept(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE state(key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
"""


def gpu(n):
    """The uuid of the n-th GPU of a scenario, from 1."""
    return f"GPU-5106ce00-fa4e-4000-8000-{n:012d}"


def entry(metric, value):
    """One sample of one metric: a double that is minimum, mean and maximum."""
    return bytes((metric, 1, 3)) + struct.pack("<d", value)


def write(folder, curves):
    """`curves` is {device: {metric: value at so many seconds before now}}."""
    now = int(time.time()) // STEP_S * STEP_S
    metrics = sorted({metric for of_one in curves.values() for metric in of_one})
    with sqlite3.connect(os.path.join(folder, "history.db")) as file:
        file.executescript(TABLES)
        file.executemany("INSERT INTO metrics VALUES(?, ?)", enumerate(metrics, 1))
        for device, (name, of_one) in enumerate(curves.items(), 1):
            file.execute("INSERT INTO devices VALUES(?, ?)", (device, name))
            for ago in range(STEP_S, WINDOW_S, STEP_S):
                data = b"".join(entry(metrics.index(m) + 1, at(ago)) for m, at in of_one.items())
                row = (STEP_S, device, now - ago, data)
                file.execute("INSERT INTO samples VALUES(?, ?, ?, ?)", row)
    file.close()
