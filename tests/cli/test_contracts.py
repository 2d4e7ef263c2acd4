"""The architecture as tests: every import contract holds, and every one of them can fail."""

import copy
from pathlib import Path
from typing import Any

import grimp
import pytest
from importlinter import api
from importlinter.application import use_cases
from importlinter.domain.contract import registry

ROOT = Path(__file__).resolve().parents[2]
OPTIONS: dict[str, Any] = api.read_configuration(str(ROOT / "pyproject.toml"))
CONTRACTS: dict[str, dict[str, Any]] = {contract["id"]: contract for contract in OPTIONS["contracts_options"]}

# For each contract one import (importer, imported) that it exists to forbid; two of them make a knot.
FORBIDDEN = {
    "query-reads-tables": [("query_plane.planted", "journal.planted")],
    "query-knows-catalog-and-audit": [("query_plane.planted", "facts.planted")],
    "fold-is-pure": [("facts.planted", "time")],
    "control-accepts-no-sql": [("control.planted", "sqlglot")],
    "importer-never-appends": [("sources.planted", "journal.planted")],
    "journal-keeps-bytes": [("journal.planted", "facts.planted")],
    "artifacts-know-no-fold": [("artifacts.planted", "facts.planted")],
    "search-builds-or-answers": [("search.query.planted", "search.build.planted")],
    "only-edges-speak-wire": [("facts.planted", "grpc")],
    "layers-point-down": [("facts.planted", "artifacts.planted")],
    "ground-stands-on-nothing": [("polyc.planted", "facts.planted")],
    "nothing-knows-the-command-line": [("control.planted", "polyc.cli")],
    "no-knot": [("control.planted", "control.sown"), ("control.sown", "control.planted")],
}


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    use_cases._register_built_in_contract_types()
    return grimp.build_graph(
        *OPTIONS["session_options"]["root_packages"], include_external_packages=True, cache_dir=None
    )


def kept(contract_id: str, graph: grimp.ImportGraph) -> bool:
    options = CONTRACTS[contract_id]
    contract_class = registry.get_contract_class(options["type"])
    contract = contract_class(
        name=options["name"],
        session_options=OPTIONS["session_options"],
        contract_options={key: value for key, value in options.items() if key not in ("id", "name", "type")},
    )
    return contract.check(graph=graph, verbose=False).kept


@pytest.mark.parametrize("contract_id", CONTRACTS)
def test_the_contract_holds(contract_id: str, graph: grimp.ImportGraph) -> None:
    assert kept(contract_id, copy.deepcopy(graph)), CONTRACTS[contract_id]["name"]


@pytest.mark.parametrize("contract_id", CONTRACTS)
def test_the_contract_can_fail(contract_id: str, graph: grimp.ImportGraph) -> None:
    planted = copy.deepcopy(graph)
    for importer, imported in FORBIDDEN[contract_id]:
        for module in (importer, imported):
            if module not in planted.modules:
                planted.add_module(module, is_squashed="." not in module)
        planted.add_import(importer=importer, imported=imported, line_number=1, line_contents=f"import {imported}")
    assert not kept(contract_id, planted)
