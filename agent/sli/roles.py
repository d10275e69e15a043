"""The parts that targets have shown to have, for those whose part nobody has said."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from agent.signals.roles import Role, roles_of
from agent.sli.count import TargetFacts
from agent.windows import Windows

Targets = Mapping[str, TargetFacts]


@dataclass(slots=True)
class RoleBook:
    """What was learned; it stays until something else is: an instance that is idle, or gone, still has its part."""

    learned: dict[str, Role] = field(default_factory=dict)
    _applied: tuple[Targets, dict[str, Role], Targets] | None = None

    def applied(self, targets: Targets, windows: Windows) -> Targets:
        """The targets with their parts, and what told them; the very same object as long as nothing new is learned."""
        unsaid = [name for name, facts in targets.items() if not facts.role_is_said]
        if not unsaid:
            return targets
        urls = {name: facts.url for name, facts in targets.items() if facts.url}
        self.learned |= roles_of(windows, targets, urls)
        known = {name: self.learned[name] for name in unsaid if name in self.learned}
        if not known:
            return targets
        if self._applied is None or self._applied[0] is not targets or self._applied[1] != known:
            told = {name: _with(targets[name], role) for name, role in known.items()}
            self._applied = (targets, known, {**targets, **told})
        return self._applied[2]


def _with(facts: TargetFacts, role: Role) -> TargetFacts:
    return replace(facts, role=role.role, labels={"role_evidence": role.evidence, **facts.labels})
