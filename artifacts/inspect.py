"""What generations there are, what is in one, and what changed between two: `polyc generations list|show|diff`."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from artifacts.files import PackFiles
from artifacts.index import IndexRow
from artifacts.layers import BaseLayer, Layers
from artifacts.layout import GENERATIONS, generation_number
from artifacts.manifest import Manifest
from artifacts.newest import Newest, base_packs
from artifacts.store import Store
from polyc.keyring import KeyRing

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def list_generations(store: Store, *, keys: Callable[[], KeyRing]) -> list[dict[str, Any]]:
    """Every generation whose manifest is there, newest first; each verified."""
    newest = Newest(store, keys=keys)
    numbers = sorted((n for e in store.list(GENERATIONS) if (n := generation_number(e.name)) is not None), reverse=True)
    return [_summary(newest.at(number).body, newest.at(number).generation_id) for number in numbers]


def show_generation(store: Store, number: int, *, keys: Callable[[], KeyRing]) -> dict[str, Any]:
    """One generation with its packs and the live rows of every table."""
    manifest = Newest(store, keys=keys).at(number)
    files = PackFiles(store)
    layers = _layers(store, files, manifest.body)
    return {
        **_summary(manifest.body, manifest.generation_id),
        "parent": manifest.body.parent,
        "sha256": manifest.sha256,
        "fold_version": manifest.body.fold_version,
        "writer": manifest.body.writer,
        "partitions": len(layers.partitions()),
        "packs": [
            {
                "id": pack_id,
                "kind": files.description(pack_id).kind,
                "partitions": files.description(pack_id).partitions,
                "rows": sum(file.rows for file in files.description(pack_id).files.values()),
                "bytes": files.description(pack_id).size_bytes,
            }
            for pack_id, _ in layers.packs()
        ],
        "faulty": [fault.partition for fault in manifest.body.faults],
    }


def diff_generations(store: Store, before: int, after: int, *, keys: Callable[[], KeyRing]) -> dict[str, Any]:
    """Which partitions came, went, or have other rows, by content digest."""
    newest, files = Newest(store, keys=keys), PackFiles(store)
    old = _newest_rows(_layers(store, files, newest.at(before).body))
    new = _newest_rows(_layers(store, files, newest.at(after).body))
    changed = sorted(name for name in old.keys() & new.keys() if _content(old[name]) != _content(new[name]))
    return {
        "before": before,
        "after": after,
        "added": sorted(new.keys() - old.keys()),
        "removed": sorted(old.keys() - new.keys()),
        "changed": [
            {
                "partition": name,
                "positions": [old[name].to_position, new[name].to_position],
                "new_incarnation": old[name].incarnation != new[name].incarnation,
            }
            for name in changed
        ],
    }


def _summary(body: Manifest, generation_id: str) -> dict[str, Any]:
    return {
        "generation": body.generation,
        "id": generation_id,
        "created_at": (_EPOCH + timedelta(microseconds=body.created_at_us)).isoformat().replace("+00:00", "Z"),
        "frontier": body.frontier.size,
        "deltas": len(body.deltas),
        "faults": len(body.faults),
    }


def _layers(store: Store, files: PackFiles, body: Manifest) -> Layers:
    base = BaseLayer([(pack_id, files.index(pack_id)) for pack_id in base_packs(store, body.base)])
    return Layers(base, [(pack_id, files.index(pack_id)) for pack_id in body.deltas])


def _newest_rows(layers: Layers) -> dict[str, IndexRow]:
    return {name: row for name in layers.partitions() if (row := layers.newest(name)) is not None}


def _content(row: IndexRow) -> tuple[str, bytes, bytes]:
    return row.incarnation, row.content, row.state
