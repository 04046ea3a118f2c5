"""A lease that renews itself."""
import http.client
import json
import os
import sys
import threading
import time
import traceback
import urllib.parse
import uuid

from ._client import Client, SluiceError
from ._environment import Environment, variables_of
from ._torch import Limits

_HEARTBEATS_PER_TTL = 3
_DEFAULT_WAIT_S = 60  # the server's default
_DAY_S = 86400
_RETRY_S = 1.0
_ALL_GPUS_S = 5  # a server that starts has found all GPUs by then
_OVER = (403, 404, 410)  # errors that no further renewal can fix
_ODD = (ArithmeticError, AttributeError, KeyError, TypeError, ValueError)  # an answer of other types
_MAX_PAGES = 1000
_BROKEN = (ConnectionResetError, BrokenPipeError, http.client.RemoteDisconnected,
           http.client.IncompleteRead)


def lease(agent, memory_gb=None, priority="normal", **options):
    """Requests `memory_gb` of GPU memory and returns a Lease to be used in a `with` block.

    memory_gb       GB of 2^30 bytes; by default the agent's amount in the server's settings
    priority        "low", "normal", "high" or "critical"
    min_memory_gb   smallest acceptable amount
    gpus            number of different GPUs, `memory_gb` on each
    device          a GPU by UUID, PCI bus or index
    model_type      key for the advised batch size
    ttl_s           time to live after the last renewal
    wait_s          longest wait for capacity
    on_unavailable  "cpu" (default): go on without; "wait"; "fail": raise SluiceError
    limit_torch     make PyTorch's allocator refuse beyond the lease (default: if torch is
                    already imported)
    export          set CUDA_VISIBLE_DEVICES and others in os.environ (default True)
    on_yield        called with the seconds left when the server asks for the memory back, and
                    with 0 when the lease is lost
    on_capacity     called when there is capacity after a `cpu_fallback`
    address, api_key  those of the server; default: SLUICE_URL, else the local socket

    The callbacks run on a thread of the lease. A process that loads CUDA before the lease is
    exported does not see the selected GPU: take the lease first.
    """
    return Lease(agent, memory_gb, priority, **options)


def leases(address=None, api_key=None):
    """Returns all pages of GET /v1/leases as one dict with the lists `leases`, `waiting`, `on_cpu`,
    `cards` and `recent`."""
    client = Client(address, api_key)
    try:
        every = page = client.call("GET", "/v1/leases?limit=1000")
        for _ in range(_MAX_PAGES):
            if not page.get("next"):
                break
            page = client.call("GET", "/v1/leases?limit=1000&cursor="
                               + urllib.parse.quote(page["next"]))
            for name in ("leases", "waiting", "on_cpu"):
                every[name] += page[name]
        every.pop("next", None)
        return every
    finally:
        client.close()


class Lease:
    """Thread-safe."""

    def __init__(self, agent, memory_gb=None, priority="normal", *, address=None, api_key=None,
                 export=True, limit_torch=None, on_yield=None, on_capacity=None, **request):
        self._request = {"agent": agent, "memory_gb": memory_gb, "priority": priority, **request}
        self._request = {k: v for k, v in self._request.items() if v is not None}
        # The lease ends with the connection it is bound to. That connection has no other calls,
        # so that no slow answer and no Ctrl-C closes it.
        self._bond = Client(address, api_key)
        self._client = Client(address, api_key)
        self._listener = Client(address, api_key)
        self._export = export
        self._limit_torch = "torch" in sys.modules if limit_torch is None else limit_torch
        self._on_yield, self._on_capacity = on_yield, on_capacity
        self._lock = threading.Lock()  # guards _client and _token
        self._yield_lock = threading.Lock()
        self._stop = threading.Event()
        self._yield, self._capacity, self._lost = (threading.Event() for _ in range(3))
        self._yield_by = self._yield_since = None
        self._yield_reason = ""
        self._over_use = 0
        self._client_limit = None  # bytes on each GPU, read back from the allocator
        self._last_event = "0-0"  # before the first, so that no event since the grant is missed
        self._token = None
        self._pid = None
        self._variables = {}
        self.answer = {}

    # ---- what was granted ------------------------------------------------------

    @property
    def status(self):
        """"allocated" or "cpu_fallback"."""
        return self.answer.get("status")

    @property
    def on_gpu(self):
        return self.status == "allocated"

    @property
    def device(self):
        """The device name for PyTorch. The lease's GPUs are the only ones it sees once they are
        exported, so the first is always cuda:0. With export=False it counts all GPUs by PCI
        bus, as PyTorch does only with CUDA_DEVICE_ORDER=PCI_BUS_ID and without
        CUDA_VISIBLE_DEVICES; gpu_uuid names the GPU in any case."""
        if not self.on_gpu:
            return "cpu"
        return "cuda:0" if self._export else f"cuda:{self.answer['gpu_device']}"

    @property
    def gpu_uuid(self):
        """The UUID of the first GPU; None on the CPU."""
        return self.answer.get("gpu_uuid")

    @property
    def memory_gb(self):
        return self.answer.get("allocated_memory_gb") or 0.0

    @property
    def batch_size(self):
        return self.answer.get("batch_size")

    @property
    def reason(self):
        return self.answer.get("reason", "")

    @property
    def enforcement(self):
        return self.answer.get("enforcement")

    @property
    def lease_id(self):
        return self.answer.get("lease_id")

    @property
    def fencing_token(self):
        """Increases from lease to lease: a store can refuse results of an older lease."""
        return self.answer.get("fencing_token")

    # ---- what happens to it ----------------------------------------------------

    @property
    def should_yield(self):
        """True after a yield request of the server (see yield_seconds) until it is withdrawn, and
        when the lease is lost."""
        return self._yield.is_set()

    @property
    def yield_seconds(self):
        """Seconds left to give the memory back, or None without a yield request."""
        by = self._yield_by
        return None if by is None else max(0.0, by - time.monotonic())

    @property
    def yield_reason(self):
        """The requester and the amount of memory; empty without a yield request."""
        return self._yield_reason if self._yield_by is not None else ""

    @property
    def over_use(self):
        """Bytes that this process uses beyond its lease, by the last report of the server; 0 within
        the lease."""
        return self._over_use

    @property
    def lost(self):
        """True if the lease expired or was revoked."""
        return self._lost.is_set()

    def wait_for_yield(self, timeout=None):
        return self._yield.wait(timeout)

    def wait_for_capacity(self, timeout=None):
        """After a cpu_fallback: True once the server reports capacity. The first
        request gets it: release this lease and request a new one."""
        return self._capacity.wait(timeout)

    def report(self, batch_size=None, peak_memory_gb=None, out_of_memory=False):
        """Reports the memory of a batch, which improves the advised batch size. Both may be omitted
        with out_of_memory. No effect on the CPU, whose memory predicts nothing about a GPU."""
        if not self.on_gpu:
            return None
        fields = {"batch_size": batch_size, "peak_memory_gb": peak_memory_gb,
                "out_of_memory": out_of_memory}
        with self._lock:
            return self._post("report", {k: v for k, v in fields.items() if v is not None})

    # ---- acquire and release ----------------------------------------------------

    def acquire(self):
        if self._pid is not None:
            raise SluiceError("a Lease is used once: make another one")
        self._pid = os.getpid()
        body = dict(self._request)
        if self._client.is_local:
            body["bind"] = "connection"  # a process that dies closes it
        if self._limit_torch:
            body["client_limits"] = True
        try:
            self.answer = self._send_request(body)
            if self.status not in ("allocated", "cpu_fallback"):
                raise SluiceError(self.reason or "no lease", answer=self.answer)
            self._token = self.answer.get("token")
            self._variables = variables_of(self.answer)  # also for callers that read the answer
            self._activate()
        except BaseException:
            self.release()
            raise
        return self

    def _send_request(self, body):
        """Retries once if the connection broke before the answer. The same key gives the same lease,
        whether or not the server had granted it."""
        key = {"Idempotency-Key": str(uuid.uuid4())}
        for is_last in (False, True):
            try:
                return self._bond.call("POST", "/v1/leases", body, self._patience(), key)
            except SluiceError as e:
                if is_last or not isinstance(e.__cause__, _BROKEN):
                    raise

    def _patience(self):
        """Returns a timeout in seconds, longer than the server's wait."""
        usual = _DEFAULT_WAIT_S if self._request.get("on_unavailable") == "wait" else 0
        wait = self._request.get("wait_s", usual)
        if isinstance(wait, bool) or not isinstance(wait, (int, float)) or not 0 <= wait <= _DAY_S:
            raise SluiceError(f"wait_s must be a number of seconds from 0 to {_DAY_S}, not {wait!r}")
        return wait + self._bond.timeout

    def _activate(self):
        if self._export:
            _environment.put(self, self._variables)
        elif self.on_gpu:
            self._fetch_index()
        if self.on_gpu and self._limit_torch:
            self._client_limit = self._apply_torch_limit()
            if self._client_limit is not None and self._token:
                self._report_limit()
        if self._token:
            self._start(self._renew_forever)
            self._start(self._listen_forever)

    def _fetch_index(self):
        """Waits for the GPU's index: a server that has just started may not have found all GPUs."""
        until = time.monotonic() + _ALL_GPUS_S
        while self.answer.get("gpu_device") is None and time.monotonic() < until:
            time.sleep(0.1)
            with self._lock:
                response = self._client.call("GET", f"/v1/leases/{self.lease_id}")
            self.answer.update({k: response[k] for k in ("gpu_device", "gpus") if k in response})

    def release(self):
        """Gives the lease back. A second call has no effect."""
        if self._stop.is_set() or self._pid is None:
            return
        self._stop.set()
        _environment.take_back(self)
        if os.getpid() != self._pid:  # a fork has copies of our connections, not our lease
            return
        _torch_limits.take_back(self)
        self._listener.interrupt()
        with self._lock:
            if self._token and not self.lost:
                try:
                    self._client.call("DELETE", f"/v1/leases/{self.lease_id}",
                                      {"token": self._token})
                except SluiceError:
                    pass  # closing the connection, or the time to live, ends it as well
            self._client.close()
            self._bond.close()

    def __enter__(self):
        return self.acquire()

    def __exit__(self, *_):
        self.release()

    def _start(self, work):
        threading.Thread(target=work, name="sluice-lease", daemon=True).start()

    def _apply_torch_limit(self):
        """Returns the largest limit that PyTorch reads back, in bytes, or None if it cannot."""
        return _torch_limits.put(self, [
            (number if self._export else part["gpu_device"], part["memory_gb"] * 2**30)
            for number, part in enumerate(self.answer.get("gpus", []))])

    def _report_limit(self):
        """Reports the limit read back: without it the server does not claim the tier `client`."""
        try:
            self._renew()
        except SluiceError:
            pass  # the next renewal reports it again

    # ---- renewals: a thread ----------------------------------------------------

    def _renew_forever(self):
        period = self._ttl_s() / _HEARTBEATS_PER_TTL
        pause = period
        while not self._stop.wait(pause) and not self.lost:
            pause, began = period, time.monotonic()
            try:
                self._heed(self._renew(), began)
            except SluiceError as e:
                if e.status in _OVER:
                    return self._end()
                pause = min(period, _RETRY_S)  # the server is unreachable; the lease stays
            except _ODD:  # no answer of a Sluice server: as if there was none
                pause = min(period, _RETRY_S)

    def _heed(self, answer, began):
        self._over_use = answer.get("over_use", 0)
        if answer.get("yield_in_s") is not None:
            self._yield_requested(float(answer["yield_in_s"]), answer.get("yield_reason", ""))
        else:  # a restarted server does not know its earlier yield request
            self._need_not_yield(began)

    def _ttl_s(self):
        ttl = self.answer.get("ttl_s", 60)
        return float(min(max(1.0, ttl), _DAY_S)) if isinstance(ttl, (int, float)) else 60.0

    def _renew(self):
        with self._lock:
            if self._stop.is_set():
                return {}
            limit = self._client_limit
            answer = self._post("renew", {} if limit is None else {"client_limit_bytes": limit})
            if not isinstance(answer["token"], str):
                raise TypeError("a token is a text")
            self._token = answer["token"]
            self.answer.update({k: answer[k] for k in ("expires_at", "expires_in_s", "enforcement")
                                if k in answer})
            return answer

    def _post(self, what, body):
        """Sends the token; the caller has the lock."""
        path = f"/v1/leases/{self.lease_id}/{what}"
        try:
            return self._client.call("POST", path, {"token": self._token, **body})
        except SluiceError as e:
            current = e.answer.get("token")
            if e.status != 409 or not current:
                raise
            self._token = current  # an earlier answer was lost on its way to us
            return self._client.call("POST", path, {"token": current, **body})

    # ---- events: a thread ------------------------------------------------------

    def _listen_forever(self):
        while not self._stop.is_set() and not self.lost:
            try:
                stream = self._listener.open(
                    "GET", f"/v1/events?interval=0&lease={self.lease_id}"
                    f"&last_event_id={self._last_event}", timeout=40)
                if stream.status == 200:
                    self._listen(stream)
            except (SluiceError, OSError, *_ODD):
                pass  # the renewals report the same, later
            self._listener.close()
            self._stop.wait(_RETRY_S)

    def _listen(self, stream):
        kind = ""
        while not self._stop.is_set():
            line = stream.readline().decode()
            if not line:
                return
            name, _, value = line.rstrip("\n").partition(": ")
            if name == "id":
                self._last_event = value
            elif name == "event":
                kind = value
            elif name == "data" and kind.startswith("lease_"):
                self._on_event(kind, json.loads(value))

    def _on_event(self, kind, event):
        self._over_use = event.get("over_use", 0)
        if kind == "lease_yield":
            self._yield_requested(float(event.get("yield_in_s", 0)), event.get("yield_reason", ""))
        elif kind == "lease_yield_withdrawn":
            self._need_not_yield(time.monotonic())
        elif kind == "lease_capacity" and not self._capacity.is_set():
            self._capacity.set()
            _call(self._on_capacity)
        elif kind == "lease_ended" and not self._stop.is_set():
            self._end()

    def _yield_requested(self, seconds, reason=""):
        with self._yield_lock:
            if self._yield.is_set():
                return
            self._set_yield(seconds, reason)
        _call(self._on_yield, float(seconds))

    def _set_yield(self, seconds, reason):
        self._yield_since = time.monotonic()
        self._yield_reason = reason
        self._yield_by = self._yield_since + float(seconds)
        self._yield.set()

    def _need_not_yield(self, since):
        """Handles an answer to a call at `since`; an older answer does not undo a newer one."""
        with self._yield_lock:
            if self._yield.is_set() and self._yield_since < since and not self.lost:
                self._yield_by = None
                self._yield.clear()

    def _end(self):
        """Handles the loss of the lease: no time is left to yield."""
        with self._yield_lock:
            if self._lost.is_set():
                return
            self._lost.set()
            self._set_yield(0, "the lease is lost")
        _call(self._on_yield, 0.0)


_environment = Environment()
_torch_limits = Limits()


def _call(callback, *arguments):
    """Calls a callback; its failure must not end the thread that renews the lease."""
    if callback:
        try:
            callback(*arguments)
        except Exception:  # pylint: disable=broad-except
            traceback.print_exc()
