"""The scene: groups of replicas as their model sees them, where there is one."""

import pytest
from split_fleet import scene_of
from watched_fleet import WatchedFleet


@pytest.mark.parametrize(
    "counted", [("vllm:generation_tokens", "vllm:prompt_tokens"), ("vllm:generation_tokens",), ("vllm:prompt_tokens",)]
)
def test_requests_without_tokens_are_not_rehearsed(counted: tuple[str, ...]) -> None:
    """Such as those of a pooling model, which generates nothing: no law tells how many a replica carries."""

    def without(line: str, _target: str, _at: float) -> str:
        return f"{line.rsplit(' ', 1)[0]} 0" if line.startswith(counted) else line

    fleet = WatchedFleet(lambda _: 5.0, 1, rewrites=without, ticks_every=float("inf"))
    fleet.go(300.0)
    scene = scene_of(fleet)
    assert [scene.view(group) for group in scene.groups().values()] == [None]
