"""One prober per target, without anybody being asked."""

from collections import Counter

from agent.fleet import owner

TARGETS = [f"vllm-{number}" for number in range(300)]
MEMBERS = ["agent-a", "agent-b", "agent-c"]


def test_every_target_has_one_owner_whatever_the_order_of_the_names() -> None:
    assert [owner(t, MEMBERS) for t in TARGETS] == [owner(t, reversed(MEMBERS)) for t in TARGETS]


def test_the_load_is_shared() -> None:
    """300 targets, three members: about 100 each; a standard deviation is 8."""
    shares = Counter(owner(target, MEMBERS) for target in TARGETS)
    assert all(70 < count < 130 for count in shares.values())
    assert len(shares) == 3


def test_only_the_targets_of_a_member_that_goes_are_moved() -> None:
    left = MEMBERS[:2]
    moved = [t for t in TARGETS if owner(t, MEMBERS) != owner(t, left)]
    assert moved == [t for t in TARGETS if owner(t, MEMBERS) == "agent-c"]
