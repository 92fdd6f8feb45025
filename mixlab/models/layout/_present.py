"""The language model of one folder, as another folder would have stored it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mixlab.checkpoint import (
    Checkpoint,
    TensorEntry,
    TensorSource,
    is_vocabulary,
    match_names,
    spell,
    tensor_size,
    torch_dtype,
)
from mixlab.models.layout._group import Group
from mixlab.models.layout._layout import Layout
from mixlab.spec import MixlabError

if TYPE_CHECKING:
    import torch

Tensors = dict[str, "torch.Tensor"]
# Groups of converted tensors that are kept: one for each thread that works on one, as a rule.
_KEPT = 2


def present(source: Checkpoint, layout: Layout, like: Layout) -> TensorSource:
    """The backbone of `source` under the stored names, shapes and order of `like`.

    What is the same bytes under another name streams from the file. What `like` has in another
    arrangement is made by transformers' operations, one group in memory at a time. Vocabulary
    tables keep the source's number of rows, and a head that is tied in the source alone is its
    embedding. Names of `like` that the source has nothing for are left out.

    Args:
        source: the folder that is read; it stays the caller's to close.
        layout: of `source`.
        like: of another folder, or of an LM that is not written yet.

    Raises:
        MixlabError: the two cannot be placed in each other.
    """
    if not (layout.placed and like.placed):
        return _Presented(source, _matched(layout, like), {})
    return _Builder(source, layout, like).all()


def _matched(layout: Layout, like: Layout) -> dict[str, TensorEntry]:
    """Pairs by names and shapes, the source's headers under the other's names."""
    mine = {name: layout.entries[name] for name in layout.backbone}
    theirs = {name: like.entries[name].shape for name in like.backbone}
    # Either side may have more rows of tokens: that is no evidence.
    rows = min((shape[0] for name, shape in theirs.items() if is_vocabulary(name)), default=0)
    shapes = {
        name: (min(entry.shape[0], rows), *entry.shape[1:]) if is_vocabulary(name) else entry.shape
        for name, entry in mine.items()
    }
    pairs = match_names(theirs, shapes)
    return {name: mine[pairs[name]] for name in like.backbone if name in pairs}


class _Presented:
    """A `TensorSource` of renamed and of made tensors, for several threads.

    Args:
        aliases: name -> header of the stored tensor that has its bytes.
        made: name -> the work that makes it.
    """

    def __init__(
        self, base: Checkpoint, aliases: Mapping[str, TensorEntry], made: Mapping[str, _Work]
    ) -> None:
        self._base, self._aliases, self._made = base, aliases, made
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, Tensors] = OrderedDict()
        self.entries: dict[str, TensorEntry] = {
            name: TensorEntry(name, entry.dtype, entry.shape, entry.start, entry.stop)
            for name, entry in aliases.items()
        }

    @property
    def key(self) -> str:
        """The folder's."""
        return self._base.key

    def streams(self, name: str) -> bool:
        """Only what is renamed."""
        return name in self._aliases

    def read_into(self, name: str, buffer: memoryview, start: int) -> None:
        """Fill `buffer` with the tensor's bytes from byte `start` on."""
        import torch

        if name in self._aliases:
            self._base.read_into(self._aliases[name].name, buffer, start)
            return
        data = self.read(name).reshape(-1).view(torch.uint8).numpy().data
        buffer[:] = data[start : start + len(buffer)]

    def read(self, name: str) -> torch.Tensor:
        """The whole tensor."""
        if name in self._aliases:
            return self._base.read(self._aliases[name].name)
        try:
            work = self._made[name]
        except KeyError:
            raise MixlabError(f"{self._base.folder}: no tensor for {name}") from None
        with self._lock:
            tensors = self._kept.get(id(work))
            if tensors is None:
                tensors = work.run({one: self._base.read(one) for one in work.reads})
                self._kept[id(work)] = tensors
                if len(self._kept) > _KEPT:
                    self._kept.popitem(last=False)
            else:
                self._kept.move_to_end(id(work))
            return tensors[name].clone()


class _Work:
    """Stored tensors of one layout made from those of another."""

    def __init__(self, reads: tuple[str, ...], forwards: list[Group], back: Group | None) -> None:
        self.reads, self._forwards, self._back = reads, forwards, back

    def run(self, stored: Mapping[str, torch.Tensor]) -> Tensors:
        """All tensors that it makes, by their names in the other layout."""
        inside: Tensors = {}
        for group in self._forwards:
            if group.conversion is None:
                inside[group.names[0]] = stored[group.stored[0]]
            else:
                inside |= group.conversion.forward({n: stored[n] for n in group.stored})
        if self._back is None or self._back.conversion is None:
            return inside
        made = self._back.conversion.backward(inside)
        rows = self._back.conversion.rows()
        # A table with fewer rows than the pieces that it is stored in: some have none.
        return made if rows is None else {name: t for name, t in made.items() if len(t)}


class _Renamed(_Work):
    """Work whose one result has another name in the layout that is asked for."""

    def __init__(self, reads: tuple[str, ...], group: Group, names: Mapping[str, str]) -> None:
        super().__init__(reads, [group], None)
        self._names = names

    def run(self, stored: Mapping[str, torch.Tensor]) -> Tensors:
        made = super().run(stored)
        return {name: made[inside] for name, inside in self._names.items()}


class _Builder:
    """Decides group by group of `like` where its tensors come from."""

    def __init__(self, source: Checkpoint, layout: Layout, like: Layout) -> None:
        self._source, self._layout, self._like = source, layout, like
        self._aliases: dict[str, TensorEntry] = {}
        self._made: dict[str, _Work] = {}
        self._shapes: dict[str, TensorEntry] = {}
        self._lent = self._lend()

    def all(self) -> TensorSource:
        """The source; headers of what is made come from a run without numbers."""
        for group in self._like.groups:
            if all(name in self._layout.by_name for name in map(self._own, group.names)):
                self._group(group)
        found = _Presented(self._source, self._aliases, self._made)
        found.entries |= self._shapes
        ordered = [name for name in self._like.backbone if name in found.entries]
        found.entries = {name: found.entries[name] for name in ordered}
        return found

    def _lend(self) -> dict[str, str]:
        """The name of a head that the source has not, because it is tied -> its embedding."""
        heads = [name for name in self._like.by_name if name.rpartition(".")[0] == "lm_head"]
        tables = [
            name for name in self._layout.by_name
            if name in ("model.embed_tokens.weight", "transformer.wte.weight")
        ]  # fmt: skip
        if not self._layout.tied or len(tables) != 1:
            return {}
        return {
            name: tables[0]
            for name in heads
            if name == "lm_head.weight" and name not in self._layout.by_name
        }

    def _own(self, name: str) -> str:
        return self._lent.get(name, name)

    def _group(self, group: Group) -> None:
        if group.conversion is None:
            self._plain(group.stored[0], self._own(group.names[0]))
            return
        found = [self._layout.by_name[name] for name in group.names]
        theirs = list({one.stored: one for one in found}.values())
        same = theirs[0].conversion if len(theirs) == 1 else None
        if same is not None and same.signature == group.conversion.signature:
            pairs = zip(group.stored, theirs[0].stored, strict=True)
            self._aliases |= {mine: self._layout.entries[its] for mine, its in pairs}
            return
        reads = tuple(name for one in theirs for name in one.stored)
        self._work(_Work(reads, theirs, group))

    def _plain(self, stored: str, name: str) -> None:
        its = self._layout.by_name[name]
        if its.conversion is None:
            self._aliases[stored] = self._layout.entries[its.stored[0]]
            return
        if stored in self._made:
            return
        # One work for all that the group gives, so that it is done once.
        theirs = {
            name: self._like.by_name[name] for name in its.names if name in self._like.by_name
        }
        siblings = {one.stored[0]: name for name, one in theirs.items() if one.conversion is None}
        self._work(_Renamed(its.stored, its, siblings))

    def _work(self, work: _Work) -> None:
        import torch

        empty = {
            name: torch.empty(
                self._layout.entries[name].shape,
                dtype=torch_dtype(self._layout.entries[name].dtype),
                device="meta",
            )
            for name in work.reads
        }
        for name, tensor in work.run(empty).items():
            spelling, shape = spell(tensor.dtype), tuple(tensor.shape)
            self._made[name] = work
            self._shapes[name] = TensorEntry(name, spelling, shape, 0, tensor_size(spelling, shape))
