"""Limits PyTorch's allocator. It has one limit for each GPU of a process: the sum of the leases on
that GPU."""
import threading


class Limits:
    """Thread-safe."""

    def __init__(self):
        self._lock = threading.Lock()
        self._leased = {}  # number of the GPU: {lease: bytes}

    def put(self, lease, parts):
        """Adds a lease; `parts` are its pairs (number of the GPU, bytes). Returns the largest limit in
        bytes that PyTorch reads back for the lease on one of the GPUs, or None if it cannot."""
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
                    pass  # a lost GPU has no limit; the lease ends anyway

    def _settle(self, torch, number):
        leased = sum(self._leased[number].values())
        total = torch.cuda.get_device_properties(number).total_memory
        share = min(1.0, leased / total) if leased else 1.0
        torch.cuda.set_per_process_memory_fraction(share, number)
        read_back = getattr(torch.cuda, "get_per_process_memory_fraction", None)
        return None if read_back is None else int(read_back(number) * total)
