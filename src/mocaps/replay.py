"""The kernels of a function, recorded once and called again on the same memory.

A step of a small model is some 400 kernels of a few microseconds each, and half as long again goes
into what surrounds them: views made, memory found and freed, autograd's bookkeeping, Python. None
of that changes from step to step. So the first step is run as ever, while every kernel that it
comes to, forward and backward, is noted with the memory that it reads and writes; every later step
calls the same kernels in the same order on the same memory. The numbers are the same bit for bit
(tests/test_replay.py).

What makes that right: a view is nothing but a place in memory, so only kernels that write are
noted. A kernel that makes a new tensor writes into memory that was set aside for it, by its `out`
variant; the few that have none (oneDNN's product) hand theirs on. Memory is set aside again as soon
as its last reader is through, as an allocator would, so that it stays in the caches. And a function
that looks at numbers, to branch on them, cannot be recorded: it is run as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

LIMIT = 2**28
"""Bytes that a recording may hold at once. Kernels that need more are so large that what surrounds
them does not count."""

EMPTY = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}
CONSTANT = {"arange", "eye", "full", "full_like", "new_full", "new_ones", "new_zeros"} | {
    "ones", "ones_like", "scalar_tensor", "zeros", "zeros_like",
}  # fmt: skip
"""Kernels whose result depends on no tensor's numbers."""
OPAQUE = {"mkldnn_rnn_layer"}
"""Kernels that keep a workspace of their own making, which nobody can set aside for them."""
LOOKS = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
"""Of kernels that hand a number to Python, or make as much as the numbers say."""

Outputs = Sequence[Tensor | None]


class Repeated:
    """A function of tensors, recorded by its first call and replayed by every other one.

    Outputs lie in memory that the next call overwrites. Whatever else the function changes in place
    is changed by every call, and tensors that it reads, like parameters, are read as they are then.
    A function that cannot be recorded is run as it is (`why_not` says why), and so is one on inputs
    of other shapes.
    """

    def __init__(self, function: Callable[..., Outputs]) -> None:
        self.function = function
        self.inputs: list[Tensor] = []
        self.calls: list[Callable[[], Any]] = []
        self.outputs: list[Any] = []
        self.why_not: str | None = None

    def __call__(self, *inputs: Tensor) -> Outputs:
        if not self.calls and not self.why_not:
            return self.record(inputs)
        if self.why_not or [x.shape for x in inputs] != [x.shape for x in self.inputs]:
            return self.function(*inputs)
        return self.replay(inputs)

    def record(self, inputs: Sequence[Tensor]) -> Outputs:
        self.inputs = [x.clone() for x in inputs]
        with _Notes() as notes:
            outputs = self.function(*self.inputs)
        self.why_not = notes.why_not
        if not self.why_not:
            self.calls, self.outputs = notes.assembled(outputs)
        return outputs

    @torch.no_grad()
    def replay(self, inputs: Sequence[Tensor]) -> Outputs:
        for own, x in zip(self.inputs, inputs, strict=True):
            own.copy_(x)
        for call in self.calls:
            call()
        return [x.tensor() if isinstance(x, _Handed) else x for x in self.outputs]


@dataclass
class _Kernel:
    """A call to come, with its arguments flattened."""

    func: Any
    leaves: list[Any]
    spec: TreeSpec
    hands_on: int | None = None
    """Where its result lay when recorded, if its result lies elsewhere at every call."""
    constant: int | None = None
    """Where the constant lay that it writes: not needed if nothing else writes there."""

    @property
    def tensors(self) -> list[Tensor]:
        return [x for x in self.leaves if isinstance(x, Tensor)]


class _Notes(TorchDispatchMode):
    """What happens, kernel by kernel. Memory is known by its address, and held until the end, so
    that nothing else comes to lie there."""

    def __init__(self) -> None:
        super().__init__()
        self.kernels: list[_Kernel] = []
        self.made: dict[int, Tensor] = {}
        self.handed: dict[int, Tensor] = {}
        self.constants: dict[int, Tensor] = {}
        self.written: set[int] = set()
        self.bytes = 0
        self.why_not: str | None = None

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if LOOKS & {*func.tags}:
            self.give_up(f"{func} depends on a tensor's numbers otherwise than by arithmetic")
        if any(x.device.type != "cpu" for x in _tensors(out)):
            self.give_up("it runs elsewhere than on the processor")
        if self.why_not:
            return out
        read = {_address(x) for x in _tensors((args, kwargs))}
        fresh = [x for x in _tensors(out) if _address(x) not in read]
        if func._schema.is_mutable:
            self.note(func, args, kwargs)
            self.written |= {_address(x) for x in _written(func, args, kwargs)}
        elif fresh:
            self.make(func, args, kwargs, fresh)
        return out  # if neither: a view, a place in memory that is there

    def give_up(self, why: str) -> None:
        self.why_not = why
        for notes in (self.kernels, self.made, self.handed, self.constants):
            notes.clear()

    def note(self, func, args, kwargs, **more: Any) -> None:
        leaves, spec = tree_flatten((args, kwargs))
        # A detached tensor is the same place in memory, without autograd's graph behind it.
        leaves = [x.detach() if isinstance(x, Tensor) else x for x in leaves]
        self.kernels.append(_Kernel(func, leaves, spec, **more))

    def make(self, func, args, kwargs, fresh: list[Tensor]) -> None:
        """A kernel that makes new tensors."""
        fresh = [x.detach() for x in fresh]
        self.bytes += sum(x.untyped_storage().nbytes() for x in fresh)
        if self.bytes > LIMIT:
            return self.give_up("it needs too much memory")
        name = func._schema.name.split("::")[1]
        places = {_address(x): x for x in fresh}
        if name in CONSTANT or self.of_constants(func, args, kwargs):
            self.constants |= places
            for x in fresh:
                again = x, x.clone()
                self.note(torch.ops.aten.copy_.default, again, {}, constant=_address(x))
        elif name in EMPTY:
            self.made |= places
        elif name in OPAQUE:
            self.give_up(f"{name} keeps a workspace of its own")
        elif (variant := _out_variant(func, len(fresh))) is not None:
            self.made |= places
            names = [a.name for a in variant._schema.arguments if a.is_out]
            self.note(variant, args, kwargs | dict(zip(names, fresh, strict=True)))
        elif len(fresh) == 1:
            self.handed |= places
            self.note(func, args, kwargs, hands_on=_address(fresh[0]))
        else:
            self.give_up(f"{func} makes several tensors, and cannot be told where")

    def of_constants(self, func, args, kwargs) -> bool:
        """Whether a kernel gives the same every time, since all that it reads does."""
        read = {_address(x) for x in _tensors((args, kwargs))}
        drawn = torch.Tag.nondeterministic_seeded in func.tags
        return bool(read) and not drawn and read <= {*self.constants} - self.written

    def assembled(self, outputs: Outputs) -> tuple[list[Callable[[], Any]], list[Any]]:
        """The calls, and where they leave the outputs."""
        kernels = [k for k in self.kernels if k.constant is None or k.constant in self.written]
        last = {_address(x): i for i, k in enumerate(kernels) for x in k.tensors}
        last |= {_address(x): len(kernels) for x in outputs if x is not None}
        changing = {a: x for a, x in self.constants.items() if a in self.written}
        memory = _Memory(self.made | changing)
        places: dict[int, list[Tensor]] = {a: [x] for a, x in self.handed.items()}
        calls: list[Callable[[], Any]] = []

        def found(x: Any) -> Any:
            if not isinstance(x, Tensor):
                return x
            place = places.get(_address(x))
            return memory.tensor(x) if place is None else _Handed(place, x)

        for i, kernel in enumerate(kernels):
            leaves = [found(x) for x in kernel.leaves]
            place = None if kernel.hands_on is None else places[kernel.hands_on]
            calls.append(_call(kernel, leaves, place))
            for address in {_address(x) for x in kernel.tensors}:
                if last[address] == i:
                    memory.free(address)
                    if address in places:
                        calls.append(places[address].clear)
        return calls, [found(x) for x in outputs]


class _Memory:
    """Memory for what kernels make, used again once it is free: the last freed first, for it is
    still in the caches."""

    def __init__(self, made: dict[int, Tensor]) -> None:
        self.sizes = {address: x.untyped_storage().nbytes() for address, x in made.items()}
        self.buffers: dict[int, Tensor] = {}
        self.unused: list[Tensor] = []

    def tensor(self, x: Tensor) -> Tensor:
        """x's place in the memory that stands for what it lay in."""
        address = _address(x)
        if address not in self.sizes:
            return x
        if address not in self.buffers:
            self.buffers[address] = self.allocate(self.sizes[address])
        buffer = self.buffers[address].view(x.dtype)
        return buffer.as_strided(x.size(), x.stride(), x.storage_offset())

    def allocate(self, size: int) -> Tensor:
        for i in reversed(range(len(self.unused))):
            if size <= len(self.unused[i]) <= 2 * size:
                return self.unused.pop(i)
        return torch.empty(-(-size // 64) * 64, dtype=torch.uint8)

    def free(self, address: int) -> None:
        if address in self.buffers:
            self.unused.append(self.buffers[address])


class _Handed:
    """A tensor in memory that is made anew at every call, handed from kernel to kernel."""

    def __init__(self, place: list[Tensor], like: Tensor) -> None:
        self.place = place
        self.geometry = like.size(), like.stride(), like.storage_offset()
        made = place[0]
        self.whole = self.geometry == (made.size(), made.stride(), made.storage_offset())

    def tensor(self) -> Tensor:
        made = self.place[0]
        return made if self.whole else made.as_strided(*self.geometry)


def _call(kernel: _Kernel, leaves: list[Any], place: list[Tensor] | None) -> Callable[[], Any]:
    """The kernel on what was found for its arguments; what is handed is looked up at every call."""
    args, kwargs = tree_unflatten(leaves, kernel.spec)
    func = getattr(kernel.func, "_op", kernel.func)  # what its call would call
    if place is None and not any(isinstance(x, _Handed) for x in leaves):
        return partial(func, *args, **kwargs)
    args = [list(x) if isinstance(x, list | tuple) else x for x in args]
    slots = [*_slots(args), *_slots(kwargs)]

    def call() -> None:
        for container, key, handed in slots:
            container[key] = handed.tensor()
        out = func(*args, **kwargs)
        if place is not None:
            place[:] = [out]
        for container, key, _ in slots:
            container[key] = None  # its memory is free as soon as its last reader is through

    return call


def _slots(container: list[Any] | dict[str, Any]) -> Iterator[tuple[Any, Any, _Handed]]:
    """Where arguments have to be put in: container, index and what is handed."""
    for key, x in enumerate(container) if isinstance(container, list) else container.items():
        if isinstance(x, _Handed):
            yield container, key, x
        elif isinstance(x, list):
            yield from _slots(x)


def _out_variant(func: Any, count: int) -> Any:
    """The same kernel, which writes into so many tensors that it is given; None where there is
    none."""
    packet = func.overloadpacket
    wanted = [(a.name, str(a.type)) for a in func._schema.arguments]
    for name in packet.overloads():
        schema = getattr(packet, name)._schema
        given = [(a.name, str(a.type)) for a in schema.arguments if not a.is_out]
        if given == wanted and len(schema.arguments) - len(given) == count:
            return getattr(packet, name)
    return None


def _written(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Tensor]:
    """The arguments that a kernel changes."""
    values = dict(zip([a.name for a in func._schema.arguments], args, strict=False)) | kwargs
    names = [a.name for a in func._schema.arguments if a.alias_info and a.alias_info.is_write]
    return _tensors([values.get(name) for name in names])


def _address(x: Tensor) -> int:
    return x.untyped_storage().data_ptr()


def _tensors(tree: Any) -> list[Tensor]:
    return [x for x in tree_flatten(tree)[0] if isinstance(x, Tensor)]
