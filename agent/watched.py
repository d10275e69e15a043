"""What is watched: the configured targets and those that discovery found, without the ones that cannot be used."""

from collections.abc import Sequence

from pydantic import ValidationError

from agent.config import Config
from agent.config_watching import Target
from agent.planning import all_targets
from probes.discovery.file import Found
from probes.discovery.source import TargetSource


def watched_targets(config: Config, sources: Sequence[TargetSource]) -> tuple[list[Target], list[str]]:
    """The targets, and one sentence for everything that discovery offers and that cannot be used."""
    alone = config.model_copy(update={"targets": []})
    names = {target.name for target in config.targets}
    found: list[Found] = []
    troubles: list[str] = []
    for source in sources:
        for endpoint in source.look():
            shown = endpoint.address.rpartition("@")[2]  # before it may stand a password
            try:
                (target,) = all_targets(alone, [endpoint])
            except ValidationError as error:
                troubles.append(f"{source.place}: target {shown!r} is left out: {_reason(error)}.")
                continue
            if target.name in names:
                troubles.append(f'{source.place}: target {shown!r} is left out: the name "{target.name}" is taken.')
                continue
            names.add(target.name)
            found.append(endpoint)
        if source.trouble:
            troubles.append(source.trouble)
    return all_targets(config, found), troubles


def _reason(error: ValidationError) -> str:
    """The first mistake, without pydantic's own preamble."""
    mistake = error.errors()[0]
    message = mistake["msg"].removeprefix("Value error, ")
    return f"{'.'.join(map(str, mistake['loc']))}: {message[:1].lower()}{message[1:]}"
