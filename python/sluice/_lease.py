"""A lease as an object that keeps itself alive."""
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
from ._torch import Limits

_HEARTBEATS_PER_TTL = 3
_USUAL_WAIT_S = 60  # the server's, where the request does not say
_DAY_S = 86400
_RETRY_S = 1.0
_ALL_GPUS_S = 5  # a server that starts has found all GPUs by then
_OVER = (403, 404, 410)  # what no further renewal can mend
_MOST_PAGES = 1000
_BROKEN = (ConnectionResetError, BrokenPipeError, http.client.RemoteDisconnected,
           http.client.IncompleteRead)


def lease(agent, memory_gb=None, priority="normal", **options):
    """Asks for `memory_gb` of GPU memory and returns a Lease to be used in a `with` block.

    memory_gb       GB of 2^30 bytes; by default what the server's settings say of the agent
    priority        "low", "normal", "high" or "critical"
    min_memory_gb   take less, down to this, rather than nothing
    gpus            that many different GPUs, `memory_gb` on each
    device          a GPU by UUID, PCI bus or index
    model_type      for the advice on the batch size
    ttl_s           the lease ends this long after the program was last heard of
    wait_s          wait at most this long for room
    on_unavailable  "cpu" (default): go on without; "wait"; "fail": raise SluiceError
    limit_torch     make PyTorch's allocator refuse past the lease (default: when it is
                    already imported)
    export          put CUDA_VISIBLE_DEVICES and the rest into os.environ (default True)
    on_yield        called with the seconds left when the server asks for the memory back, and
                    with 0 when the lease is lost
    on_room         called when there is room after a `cpu_fallback`
    address, api_key  of the server; by default SLUICE_URL, else the local socket

    The callbacks run on a thread of the lease. A process that loads CUDA before the lease is
    exported does not see the choice of GPU: take the lease first.
    """
    return Lease(agent, memory_gb, priority, **options)


def leases(address=None, api_key=None):
    """What GET /v1/leases tells, of all pages: a dict with the lists `leases`, `waiting`, `on_cpu`,
    `cards` and `recent`."""
    client = Client(address, api_key)
    try:
        every = page = client.call("GET", "/v1/leases?limit=1000")
        for _ in range(_MOST_PAGES):
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
    """Usable by several threads."""

    def __init__(self, agent, memory_gb=None, priority="normal", *, address=None, api_key=None,
                 export=True, limit_torch=None, on_yield=None, on_room=None, **wanted):
        self._wanted = {"agent": agent, "memory_gb": memory_gb, "priority": priority, **wanted}
        self._wanted = {k: v for k, v in self._wanted.items() if v is not None}
        # The lease ends with the connection it is bound to: that one carries nothing else, so
        # that no slow answer and no Ctrl-C closes it.
        self._bond = Client(address, api_key)
        self._client = Client(address, api_key)
        self._listener = Client(address, api_key)
        self._export = export
        self._limit_torch = "torch" in sys.modules if limit_torch is None else limit_torch
        self._on_yield, self._on_room = on_yield, on_room
        self._lock = threading.Lock()  # of _client and _token
        self._yield_lock = threading.Lock()
        self._stop = threading.Event()
        self._yield, self._room, self._lost = (threading.Event() for _ in range(3))
        self._yield_by = self._yield_since = None
        self._yield_reason = ""
        self._over_use = 0
        self._client_limit = None  # bytes on each GPU, as read back
        self._last_event = "0-0"  # before the first: nothing since the grant is missed
        self._token = None
        self._pid = None
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
        """What PyTorch calls it. The lease's GPUs are the only ones it sees once they are
        exported, so the first is always cuda:0. With export=False it counts all GPUs by PCI
        bus, which is PyTorch's way only with CUDA_DEVICE_ORDER=PCI_BUS_ID and without
        CUDA_VISIBLE_DEVICES; gpu_uuid names the GPU in any case."""
        if not self.on_gpu:
            return "cpu"
        return "cuda:0" if self._export else f"cuda:{self.answer['gpu_device']}"

    @property
    def gpu_uuid(self):
        """Of the first GPU; None on the CPU."""
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
        """Grows from lease to lease: what stores a result can refuse an older one."""
        return self.answer.get("fencing_token")

    # ---- what happens to it ----------------------------------------------------

    @property
    def should_yield(self):
        """True once the server asked for the memory back (see yield_seconds), until it takes
        that back; and when the lease is lost."""
        return self._yield.is_set()

    @property
    def yield_seconds(self):
        """Seconds left to give the memory back, or None when nobody asked."""
        by = self._yield_by
        return None if by is None else max(0.0, by - time.monotonic())

    @property
    def yield_reason(self):
        """Who asks for the memory and how much of it; empty when nobody does."""
        return self._yield_reason if self._yield_by is not None else ""

    @property
    def over_use(self):
        """Bytes that this process has on the lease's GPUs past what it was promised, as the
        server last saw it; 0 when it keeps to its lease."""
        return self._over_use

    @property
    def lost(self):
        """True once the lease is over without our doing: expired or revoked."""
        return self._lost.is_set()

    def wait_for_yield(self, timeout=None):
        return self._yield.wait(timeout)

    def wait_for_room(self, timeout=None):
        """After a cpu_fallback: True once the server says that there is room. Whoever asks
        first gets it: release this lease and ask for a new one."""
        return self._room.wait(timeout)

    def report(self, batch_size=None, peak_memory_gb=None, out_of_memory=False):
        """Tells what a batch took, so that the next advice is better. Both may be left out with
        out_of_memory. Does nothing on the CPU: its memory says nothing of a GPU's."""
        if not self.on_gpu:
            return None
        said = {"batch_size": batch_size, "peak_memory_gb": peak_memory_gb,
                "out_of_memory": out_of_memory}
        with self._lock:
            return self._say("report", {k: v for k, v in said.items() if v is not None})

    # ---- its life --------------------------------------------------------------

    def acquire(self):
        if self._pid is not None:
            raise SluiceError("a Lease is used once: make another one")
        self._pid = os.getpid()
        body = dict(self._wanted)
        if self._client.is_local:
            body["bind"] = "connection"  # a process that dies closes it
        if self._limit_torch:
            body["client_limits"] = True
        try:
            self.answer = self._ask(body)
            if self.status not in ("allocated", "cpu_fallback"):
                raise SluiceError(self.reason or "no lease", answer=self.answer)
            self._token = self.answer.get("token")
            self._take_up()
        except BaseException:
            self.release()
            raise
        return self

    def _ask(self, body):
        """Once more when the connection broke before the answer: under the same key that is the
        same lease, whether or not the server had granted it."""
        key = {"Idempotency-Key": str(uuid.uuid4())}
        for is_last in (False, True):
            try:
                return self._bond.call("POST", "/v1/leases", body, self._patience(), key)
            except SluiceError as e:
                if is_last or not isinstance(e.__cause__, _BROKEN):
                    raise

    def _patience(self):
        """Seconds: longer than the server lets the request wait."""
        usual = _USUAL_WAIT_S if self._wanted.get("on_unavailable") == "wait" else 0
        wait = self._wanted.get("wait_s", usual)
        if isinstance(wait, bool) or not isinstance(wait, (int, float)) or not 0 <= wait <= _DAY_S:
            raise SluiceError(f"wait_s must be a number of seconds from 0 to {_DAY_S}, not {wait!r}")
        return wait + self._bond.timeout

    def _take_up(self):
        if self._export:
            _environment.put(self, self.answer.get("env", {}))
        elif self.on_gpu:
            self._learn_index()
        if self.on_gpu and self._limit_torch:
            self._client_limit = self._apply_torch_limit()
            if self._client_limit is not None and self._token:
                self._tell_limit()
        if self._token:
            self._start(self._renew_forever)
            self._start(self._listen_forever)

    def _learn_index(self):
        """A server that has just started may not know yet how many GPUs come before ours."""
        until = time.monotonic() + _ALL_GPUS_S
        while self.answer.get("gpu_device") is None and time.monotonic() < until:
            time.sleep(0.1)
            with self._lock:
                told = self._client.call("GET", f"/v1/leases/{self.lease_id}")
            self.answer.update({k: told[k] for k in ("gpu_device", "gpus") if k in told})

    def release(self):
        """Gives it back; does nothing the second time."""
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
        """The largest limit that PyTorch then reads back, in bytes; None where it cannot."""
        return _torch_limits.put(self, [
            (number if self._export else part["gpu_device"], part["memory_gb"] * 2**30)
            for number, part in enumerate(self.answer.get("gpus", []))])

    def _tell_limit(self):
        """The server claims the tier `client` only with what was read back."""
        try:
            self._renew()
        except SluiceError:
            pass  # the next renewal says it again

    # ---- renewals: a thread ----------------------------------------------------

    def _renew_forever(self):
        period = float(self.answer.get("ttl_s", 60)) / _HEARTBEATS_PER_TTL
        pause = period
        while not self._stop.wait(pause) and not self.lost:
            pause, began = period, time.monotonic()
            try:
                answer = self._renew()
            except SluiceError as e:
                if e.status in _OVER:
                    return self._end()
                pause = min(period, _RETRY_S)  # it is away; it keeps the lease, within limits
                continue
            self._over_use = answer.get("over_use", 0)
            if answer.get("yield_in_s") is not None:
                self._asked_to_yield(answer["yield_in_s"], answer.get("yield_reason", ""))
            else:  # the server may have restarted, and forgotten that it asked
                self._need_not_yield(began)

    def _renew(self):
        with self._lock:
            if self._stop.is_set():
                return {}
            limit = self._client_limit
            answer = self._say("renew", {} if limit is None else {"client_limit_bytes": limit})
            self._token = answer["token"]
            self.answer.update({k: answer[k] for k in ("expires_at", "expires_in_s", "enforcement")
                                if k in answer})
            return answer

    def _say(self, what, body):
        """With the token, under the lock."""
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
            except (SluiceError, OSError, ValueError):
                pass  # the renewals tell the same, only later
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
                self._heard(kind, json.loads(value))

    def _heard(self, kind, event):
        self._over_use = event.get("over_use", 0)
        if kind == "lease_yield":
            self._asked_to_yield(event.get("yield_in_s", 0), event.get("yield_reason", ""))
        elif kind == "lease_yield_withdrawn":
            self._need_not_yield(time.monotonic())
        elif kind == "lease_room" and not self._room.is_set():
            self._room.set()
            _call(self._on_room)
        elif kind == "lease_ended" and not self._stop.is_set():
            self._end()

    def _asked_to_yield(self, seconds, reason=""):
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
        """As the server said after the time `since`; an older word does not undo a newer one."""
        with self._yield_lock:
            if self._yield.is_set() and self._yield_since < since and not self.lost:
                self._yield_by = None
                self._yield.clear()

    def _end(self):
        """Lost: no time is left to yield, whatever was said before."""
        with self._yield_lock:
            if self._lost.is_set():
                return
            self._lost.set()
            self._set_yield(0, "the lease is lost")
        _call(self._on_yield, 0.0)


class _Environment:
    """What leases put into os.environ. Several may: the newest one's values are there, and
    when the last is gone those of before."""

    def __init__(self):
        self._lock = threading.Lock()
        self._before = {}
        self._put = []  # (lease, its variables), the newest last

    def put(self, lease, variables):
        with self._lock:
            for name in variables:
                self._before.setdefault(name, os.environ.get(name))
            self._put.append((lease, dict(variables)))
            os.environ.update(variables)

    def take_back(self, lease):
        with self._lock:
            names = [name for who, variables in self._put if who is lease for name in variables]
            self._put = [(who, variables) for who, variables in self._put if who is not lease]
            for name in names:
                self._settle(name)

    def _settle(self, name):
        values = [variables[name] for _, variables in self._put if name in variables]
        value = values[-1] if values else self._before.pop(name, None)
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


_environment = _Environment()
_torch_limits = Limits()


def _call(callback, *arguments):
    """A callback that fails must not end the thread that keeps the lease."""
    if callback:
        try:
            callback(*arguments)
        except Exception:  # pylint: disable=broad-except
            traceback.print_exc()
