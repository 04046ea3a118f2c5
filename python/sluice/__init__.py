"""Ask a Sluice server for a GPU, and be told why when there is none.

    import sluice

    with sluice.lease("scout", memory_gb=8, priority="high") as gpu:
        model.to(gpu.device)              # "cuda:0", or "cpu" when there was no room
        for batch in batches(gpu.batch_size):
            if gpu.should_yield:          # somebody more important waits
                break
            work(batch)

The lease ends with the block, with the process, or when the server no longer hears
from it. Nothing outside the standard library is needed.
"""
from ._client import Client, SluiceError
from ._lease import Lease, lease, leases

__all__ = ["Client", "Lease", "SluiceError", "lease", "leases"]
__version__ = "0.1.0"
