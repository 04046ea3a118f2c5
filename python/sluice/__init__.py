"""Leases GPU memory from a Sluice server, or reports why there is none.

    import sluice

    with sluice.lease("scout", memory_gb=8, priority="high") as gpu:
        model.to(gpu.device)              # "cuda:0", or "cpu" when no GPU had capacity
        for batch in batches(gpu.batch_size):
            if gpu.should_yield:          # a request of a higher priority waits
                break
            work(batch)

The lease ends with the block, with the process, or when its renewals stop. The package
needs only the standard library.
"""
from ._client import Client, SluiceError
from ._lease import Lease, lease, leases

__all__ = ["Client", "Lease", "SluiceError", "lease", "leases"]
__version__ = "0.1.0"
