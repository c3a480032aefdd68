"""How a process that trains or embeds uses the machine: one thread, and memory that it keeps."""

from __future__ import annotations

import ctypes
import sys

import torch

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
KEPT = 2**30


def settle() -> None:
    """Kernels this small gain nothing from a second thread, and sums over several threads would
    not repeat bit for bit. And where glibc would hand freed memory back to the system, only to ask
    for it again in the next step (900 page faults a step, a fifth of its time), it keeps it."""
    torch.set_num_threads(1)
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # another C library may have none
        if mallopt is not None:
            mallopt(M_TRIM_THRESHOLD, KEPT)
            mallopt(M_MMAP_THRESHOLD, KEPT)
