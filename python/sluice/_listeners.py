"""Which users listen on a port of this machine, and who holds the other end of a connection."""
import os
import socket
import struct
import time

_LISTENS = "0A"
_PATIENCE_S = 5  # until a connection is accepted


def why_not_trusted(port, connection):
    """Returns why the server behind the socket `connection` to 127.0.0.1:`port` is not trusted;
    None if it and all listeners there are of root or of this user. Any user may listen on a port
    while the server is down, and what a server answers is acted upon."""
    advice = (f"; if you trust the server there, name it: address=\"http://127.0.0.1:{port}\" or "
              "SLUICE_URL")
    users = _users(port)
    if not users:
        return f"it is not known which user listens on port {port} of this machine{advice}"
    behind = _user_behind(port, connection)
    if behind is None:
        return f"nobody accepts connections to port {port} of this machine{advice}"
    others = [uid for uid in (*users, behind) if not _is_trusted(uid)]
    if others:
        return f"port {port} of this machine is held by another user (uid {others[0]}){advice}"
    return None


def _is_trusted(uid):
    """In a user namespace that does not map this user, all that are not mapped look the same."""
    return uid in (0, os.geteuid()) and _is_mapped(os.geteuid())


def _is_mapped(uid):
    try:
        with open("/proc/self/uid_map", encoding="ascii") as table:
            ranges = [[int(word) for word in line.split()] for line in table]
    except (OSError, ValueError):
        return False
    return any(inside <= uid < inside + count for inside, _, count in ranges)


def _users(port):
    ends = _ends(port)
    return [int(row[7]) for row in _rows() if row[1] in ends and row[3] == _LISTENS]


def _user_behind(port, connection):
    """The user of the other end; None if nobody accepts it. Who listens may have changed since it
    was accepted; a connection that was not accepted yet is nobody's: its inode is 0."""
    here, there = _ends(port), _ends(connection.getsockname()[1])
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until:
        for row in _rows():
            if row[1] in here and row[2] in there and row[9] != "0":
                return int(row[7])
        time.sleep(0.005)
    return None


def _rows():
    rows = []
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(name, encoding="ascii") as table:
                rows += [row for row in map(str.split, table) if len(row) > 9 and row[0] != "sl"]
        except (OSError, ValueError):  # no IPv6 here, or no Linux
            continue
    return rows


def _ends(port):
    """The local ends, as the tables write them, of sockets that may get a connection to 127.0.0.1:
    those of this address and of any address, over IPv4, IPv6 and as IPv4 in IPv6."""
    own, every = socket.inet_aton("127.0.0.1"), bytes(4)
    mapped = bytes(10) + b"\xff\xff"
    hosts = (own, every, bytes(16), mapped + own, mapped + every)
    return {"".join(f"{word:08X}" for word in struct.unpack(f"={len(host) // 4}I", host))
            + f":{port:04X}" for host in hosts}
