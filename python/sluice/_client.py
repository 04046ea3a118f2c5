"""HTTP to a Sluice server, over its Unix socket or over TCP."""
import contextlib
import http.client
import json
import os
import socket
import urllib.parse

from ._listeners import why_not_trusted


class SluiceError(Exception):
    """The server refused or could not be reached. `status` is the HTTP status, or None;
    `answer` is the server's answer."""

    def __init__(self, message, status=None, answer=None):
        super().__init__(message)
        self.status = status
        self.answer = answer or {}


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(self.timeout)
            sock.connect(self._path)
        except BaseException:
            sock.close()
            raise
        self.sock = sock


_STRANGE = "the server's answer is not what a Sluice server sends"
_GUESS = "http://127.0.0.1:8000"  # used if no server was named: anybody may listen there


def default_address():
    """Returns SLUICE_URL, else the Unix socket (SLUICE_SOCKET or that of the state folder), else
    loopback TCP."""
    if os.environ.get("SLUICE_URL"):
        return os.environ["SLUICE_URL"]
    if os.environ.get("SLUICE_SOCKET"):
        return "unix:" + os.environ["SLUICE_SOCKET"]
    state = os.environ.get("SLUICE_STATE_DIR")
    if not state:
        home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
        state = os.path.join(home, "sluice")
    path = os.path.join(state, "sluice.sock")
    return "unix:" + path if os.path.exists(path) else _GUESS


class Client:
    """Has one connection, opened on first use. Not thread-safe."""

    def __init__(self, address=None, api_key=None, timeout=10.0):
        self.address = address or default_address()
        is_named = address or os.environ.get("SLUICE_URL") or self.address != _GUESS
        self._is_guessed = not is_named
        self.api_key = (api_key or os.environ.get("SLUICE_SERVE_API_KEY")) if is_named else None
        self.timeout = timeout
        self._connection = None

    def call(self, method, path, body=None, timeout=None, headers=None):
        """Returns the JSON answer. Raises SluiceError for any status but 2xx."""
        response = self.open(method, path, body, timeout, headers)
        try:
            text = response.read()
        except BaseException as e:
            self.close()
            if isinstance(e, (OSError, http.client.HTTPException)):
                raise SluiceError(f"half an answer from {self.address}: {e}") from e
            raise
        try:
            answer = json.loads(text) if text else {}
        except ValueError:
            answer = {}
        if not isinstance(answer, dict):
            raise SluiceError(_STRANGE, response.status)
        if not 200 <= response.status < 300:
            error = answer.get("error", {})
            if not isinstance(error, dict):
                raise SluiceError(_STRANGE, response.status, answer)
            message = error.get("message") or f"{method} {path}: HTTP {response.status}"
            if error.get("fix"):
                message += f" ({error['fix']})"
            raise SluiceError(message, response.status, answer)
        return answer

    def open(self, method, path, body=None, timeout=None, headers=None):
        """Returns the response before its body is read, for streams."""
        more = headers
        headers = {"Accept": "application/json", **(more or {})}
        if self.api_key:
            headers["X-API-Key"] = self.api_key
        data = None
        if body is not None:
            try:
                data = json.dumps(body, allow_nan=False).encode()
            except (TypeError, ValueError) as e:  # NaN, or a type that JSON does not have
                raise SluiceError(f"cannot be sent: {e}") from e
            headers["Content-Type"] = "application/json"
        is_reused = self._connection is not None
        try:
            return self._exchange(method, path, data, headers, timeout)
        except (OSError, http.client.HTTPException) as e:
            self.close()
            if is_reused and isinstance(e, (ConnectionError, http.client.BadStatusLine)):
                # The server closed it meanwhile, or was restarted.
                return self.open(method, path, body, timeout, more)
            if isinstance(e, PermissionError) and self.is_local:
                raise SluiceError(f"this user may not use {self.address[5:]}: its file mode is the server's "
                                  "setting serve.socket_mode, and the folders above it must let users "
                                  "through; or set SLUICE_URL to ask over TCP") from e
            raise SluiceError(f"no answer from {self.address}: {e or type(e).__name__}; is `sluice "
                              "serve` running there? SLUICE_URL or SLUICE_SOCKET name another") from e
        except BaseException:  # a late answer would be taken for the next one
            self.close()
            raise

    def _exchange(self, method, path, data, headers, timeout):
        connection = self._connect()
        connection.sock.settimeout(self.timeout if timeout is None else timeout)
        connection.request(method, path, data, headers)
        return connection.getresponse()

    def _connect(self):
        if self._connection is None:
            kind, _, rest = self.address.partition(":")
            if kind == "unix":
                self._connection = _UnixConnection(rest, self.timeout)
            else:
                url = urllib.parse.urlsplit(self.address)
                made = (http.client.HTTPSConnection if url.scheme == "https"
                        else http.client.HTTPConnection)
                self._connection = made(url.hostname, url.port, timeout=self.timeout)
        if self._connection.sock is None:
            self._connection.connect()
            # With each connection: the server may have ended and another listen there.
            if self._is_guessed and (why := why_not_trusted(self._connection.port, self._connection.sock)):
                raise SluiceError(why)  # open() closes it
        return self._connection

    @property
    def is_local(self):
        return self.address.startswith("unix:")

    def interrupt(self):
        """Interrupts a call in another thread, which then closes the connection."""
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with contextlib.suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    def close(self):
        if self._connection is not None:
            self._connection.close()
            self._connection = None
