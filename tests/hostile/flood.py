"""Many clients of one process that ask the same again and again, as fast as they are answered.
It gives way to the server: what is measured beside it is the server's doing.
Usage: flood.py PORT CLIENTS REQUEST-FILE [SOURCE-ADDRESS [DEPTH [USER]]]
DEPTH requests are under way on each connection."""
import contextlib, os, selectors, socket, sys


def connect(port, source):
    s = socket.socket()
    if source:
        s.bind((source, 0))
    s.connect(("127.0.0.1", port))
    s.setblocking(False)
    return s


def main():
    port, clients, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    source = sys.argv[4] if len(sys.argv) > 4 and sys.argv[4] else None
    depth = int(sys.argv[5]) if len(sys.argv) > 5 else 1
    with open(path, "rb") as f:
        request = f.read()
    if len(sys.argv) > 6:
        os.setuid(int(sys.argv[6]))
    os.nice(10)
    selector = selectors.DefaultSelector()

    def begin():
        s = connect(port, source)
        s.send(request * depth)
        selector.register(s, selectors.EVENT_READ)

    for _ in range(clients):
        begin()
    print("begun", flush=True)
    while True:
        for key, _ in selector.select(1):
            data = b""
            with contextlib.suppress(OSError):
                data = key.fileobj.recv(1 << 20)
            answers = data.count(b"HTTP/1.1 ")
            if data and b"Connection: close" not in data:
                with contextlib.suppress(OSError):
                    key.fileobj.send(request * answers)
                continue
            selector.unregister(key.fileobj)
            key.fileobj.close()
            with contextlib.suppress(OSError):
                begin()


if __name__ == "__main__":
    main()
