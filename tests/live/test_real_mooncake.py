"""A real Mooncake master with a client: what the client did is what the agent counts, and its death is named."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from live_agent import RunningAgent
from live_figures import tell
from live_http import get_text
from live_neighbours import SEEN_SECONDS, alert_about, watching
from live_parts import NEIGHBOURS_SCRIPT, ROOT, free_port, neighbours_folder
from live_process import Server, until

pytestmark = [pytest.mark.real, pytest.mark.neighbours]
START_SECONDS = 60.0
PUTS, GETS, MISSES = 60, 29, 72


@pytest.fixture
def master(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Its address for clients, and that of its page."""
    rpc, page = free_port(), free_port()
    command = ["bash", NEIGHBOURS_SCRIPT, "mooncake", neighbours_folder(), "--rpc_address=127.0.0.1"]
    command += [f"--rpc_port={rpc}", "--metrics_host=127.0.0.1", f"--metrics_port={page}", "--client_ttl=5"]
    server = Server([*command, "--default_kv_lease_ttl=500"], tmp_path / "master.log")
    url = f"http://127.0.0.1:{page}"
    try:
        server.start_until("the master has a page", START_SECONDS, lambda: get_text(f"{url}/metrics"))
        yield f"127.0.0.1:{rpc}", url
    finally:
        server.kill()


def stored(agent: RunningAgent) -> dict[str, Any]:
    """What the agent says of the store over the last hour."""
    signals: dict[str, Any] = agent.api("signals", window_seconds="3600")["targets"]["store"]["signals"]
    found: dict[str, Any] = signals["object_store"]
    assert signals["external_cache_hit_ratio"] is None  # objects are no tokens
    return found


def test_objects_are_counted_as_the_client_did_and_its_death_is_named(master: tuple[str, str], tmp_path: Path) -> None:
    """60 puts, 29 gets of what is there, 72 of what is not: 72 misses, which the page calls failures."""
    address, url = master
    agent = watching([{"name": "store", "url": url, "kind": "mooncake"}], tmp_path)
    client = Server(
        ["bash", NEIGHBOURS_SCRIPT, "mooncake-client", neighbours_folder(), ROOT / "tests/live/mooncake_client.py",
         address, str(PUTS), str(GETS), str(MISSES)],
        tmp_path / "client.log",
    )  # fmt: skip
    try:
        client.start_until("the client has done its work", START_SECONDS, lambda: '"misses"' in client.said())
        done = json.loads(next(line for line in client.said().splitlines() if line.startswith('{"puts"')))
        assert (done["puts"], done["hits"], done["misses"]) == (PUTS, GETS, MISSES)
        until("the agent has counted it", SEEN_SECONDS, lambda: (stored(agent)["lookups"] or 0) >= GETS + MISSES)
        seen = stored(agent)
        tell(f"Mooncake: client {done}; agent", {k: seen[k] for k in ("puts", "lookups", "hits", "object_hit_ratio")})
        assert (seen["puts"], seen["hits"], seen["lookups"]) == (PUTS, GETS, GETS + MISSES)
        assert seen["failed_allocations"] == 0
        assert agent.api("alerts")["alerts"] == []
        client.kill()
        alert = alert_about(agent, "CacheTierDown", "store")
        tell("Mooncake, the client killed:", alert["annotations"]["description"])
        assert alert["annotations"]["description"].startswith("1 of 1 clients are gone, and room for 67,108,864 of")
        assert agent.health("store") == "up"
    finally:
        client.kill()
        agent.server.stop()
