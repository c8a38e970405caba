"""Declarations of VNN-LIB files: networks and their tensors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from lipyomo.base.system.memory import KEPT
from lipyomo.problems.domains.expressions import Words, wrong

RELATIONS = ("equal-to", "isomorphic-to")


@dataclass(frozen=True)
class DeclaredTensor:
    """A tensor of a network.

    Attributes
    ----------
    name : str
    kind : {'input', 'hidden', 'output'}
    element : str
        The type of its entries, as written in the file.
    shape : tuple of int
    first : int
        Index of its first entry among those of all tensors of its kind, over all networks.
    node : str or None
        Its name in the ONNX file.
    """

    name: str
    kind: str
    element: str
    shape: tuple[int, ...]
    first: int
    node: str | None = None

    @property
    def size(self) -> int:
        """Number of entries."""
        return prod(self.shape)


@dataclass(frozen=True)
class Declared:
    """A network that a file declares.

    Attributes
    ----------
    name : str
    tensors : tuple of DeclaredTensor
        In the order of the file.
    relation : {'', 'equal-to', 'isomorphic-to'}
        Relation to another network; 'equal-to' means the same file.
    other : str
        Name of that network.
    """

    name: str
    tensors: tuple[DeclaredTensor, ...]
    relation: str = ""
    other: str = ""

    def of(self, kind: str) -> tuple[DeclaredTensor, ...]:
        """Return the tensors of a kind."""
        return tuple(tensor for tensor in self.tensors if tensor.kind == kind)

    @property
    def inputs(self) -> int:
        """Number of inputs."""
        return sum(tensor.size for tensor in self.of("input"))

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return sum(tensor.size for tensor in self.of("output"))


def declared_networks(words: Words, before: Sequence[Declared], file: str) -> Declared:
    """Read ``(declare-network NAME ...)``.

    Parameters
    ----------
    words : Words
    before : sequence of Declared
        The networks that the file has declared before.
    file : str
        File name for messages.

    Raises
    ------
    DomainError
        If the declaration is invalid; names the line.
    """
    name = words.parts[1].word if len(words.parts) > 1 else ""
    if not name or name in {network.name for network in before}:
        raise wrong(file, words, f"a second network '{name}'" if name else "a network without name")
    relation, other = "", ""
    tensors: list[DeclaredTensor] = []
    counts = {
        kind: sum(tensor.size for network in before for tensor in network.of(kind))
        for kind in ("input", "hidden", "output")
    }
    for part in words.parts[2:]:
        if part.head in RELATIONS:
            if relation:
                raise wrong(file, part, f"'{name}' is related to two networks")
            relation, other = part.head, part.parts[1].word if len(part.parts) == 2 else ""
            if other not in {network.name for network in before}:
                raise wrong(file, part, f"no network '{other}' is declared before '{name}'")
        else:
            tensor = _tensor(part, counts, file)
            counts[tensor.kind] += tensor.size
            tensors.append(tensor)
    found = Declared(name, tuple(tensors), relation, other)
    if not found.inputs:
        raise wrong(file, words, f"the network '{name}' declares no inputs")
    if relation:
        first = next(network for network in before if network.name == other)
        if (first.inputs, first.outputs) != (found.inputs, found.outputs):
            raise wrong(
                file,
                words,
                f"'{name}' is {relation} '{other}', which has {first.inputs} inputs and "
                f"{first.outputs} outputs, not {found.inputs} and {found.outputs}",
            )
    return found


def _tensor(words: Words, counts: dict[str, int], file: str) -> DeclaredTensor:
    """Read a tensor of a network."""
    kind = words.head.removeprefix("declare-")
    if words.head not in ("declare-input", "declare-hidden", "declare-output"):
        raise wrong(file, words, f"'{words.head or words.word}' is no tensor of a network")
    if len(words.parts) < 3:
        raise wrong(file, words, "a tensor needs a name, a type and a shape")
    name, *described = (part.word for part in words.parts[1:])
    text = " ".join(word for word in described if not word.startswith('"'))
    match = re.fullmatch(r"(\S*?)\s*\[([\d\s,]*)\]\s*", text)
    if match is None:
        raise wrong(file, words, f"an {kind} needs a shape of numbers, such as [1, 5]")
    shape = tuple(int(n) for n in match[2].replace(",", " ").split())
    if prod(shape) < 1 or prod(shape) > KEPT:
        raise wrong(file, words, f"the shape {shape} is no shape of an {kind}")
    node = next((word.strip('"') for word in described if word.startswith('"')), None)
    return DeclaredTensor(name, kind, match[1] or "real", shape, counts[kind], node)
