"""PyTorch's allocator has one limit for each GPU of a process: here, what the leases there add up
to."""
import threading


class Limits:
    """Usable by several threads."""

    def __init__(self):
        self._lock = threading.Lock()
        self._leased = {}  # number of the GPU: {lease: bytes}

    def put(self, lease, parts):
        """`parts` are (number of the GPU, bytes) of the lease. The most of it that PyTorch lets the
        lease have on one of them, in bytes, by the limit that it then reads back; None where it
        cannot read it."""
        import torch
        left = []
        with self._lock:
            for number, size in parts:
                here = self._leased.setdefault(number, {})
                here[lease] = size
                limit = self._settle(torch, number)
                others = sum(here.values()) - size
                left.append(None if limit is None else limit - others)
        return None if None in left else max(left, default=None)

    def take_back(self, lease):
        with self._lock:
            for number in [n for n, here in self._leased.items() if lease in here]:
                del self._leased[number][lease]
                try:
                    import torch
                    self._settle(torch, number)
                except Exception:  # pylint: disable=broad-except
                    pass  # a GPU that is gone has no limit; the lease ends all the same

    def _settle(self, torch, number):
        leased = sum(self._leased[number].values())
        total = torch.cuda.get_device_properties(number).total_memory
        share = min(1.0, leased / total) if leased else 1.0
        torch.cuda.set_per_process_memory_fraction(share, number)
        read_back = getattr(torch.cuda, "get_per_process_memory_fraction", None)
        return None if read_back is None else int(read_back(number) * total)
