"""Which users listen on a port of this machine."""
import os
import socket
import struct

_LISTENS = "0A"


def why_not_trusted(port):
    """Returns why the listener behind 127.0.0.1:`port` is not trusted; None if it is of root or of
    this user. Any user may listen on a port while the server is down, and what a server answers
    is acted upon."""
    advice = (f"; if you trust the server there, name it: address=\"http://127.0.0.1:{port}\" or "
              "SLUICE_URL")
    users = _users(port)
    if not users:
        return f"it is not known which user listens on port {port} of this machine{advice}"
    others = [uid for uid in users if uid not in (0, os.geteuid())]
    if others:
        return f"port {port} of this machine is held by another user (uid {others[0]}){advice}"
    return None


def _users(port):
    ends, users = _ends(port), []
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(name, encoding="ascii") as table:
                rows = [line.split() for line in table]
        except (OSError, ValueError):  # no IPv6 here, or no Linux
            continue
        users += [int(row[7]) for row in rows
                  if len(row) > 7 and row[1] in ends and row[3] == _LISTENS]
    return users


def _ends(port):
    """The local ends, as the tables write them, of sockets that may get a connection to 127.0.0.1:
    those of this address and of any address, over IPv4, IPv6 and as IPv4 in IPv6."""
    own, every = socket.inet_aton("127.0.0.1"), bytes(4)
    mapped = bytes(10) + b"\xff\xff"
    hosts = (own, every, bytes(16), mapped + own, mapped + every)
    return {"".join(f"{word:08X}" for word in struct.unpack(f"={len(host) // 4}I", host))
            + f":{port:04X}" for host in hosts}
