"""The errors people meet. Each takes facts and builds its own sentence: what, where, how to fix it.

AgentError
├── ConfigError      every mistake of a config file, one line each; exit code 2
├── UsageError       a command line or an input file that cannot be used; exit code 2
│   └── AddressTakenError
├── StateError       a state file that cannot be used; exit code 2
└── DeliveryError    an output that did not take what we sent
"""

from pathlib import Path


class AgentError(Exception):
    """Base of all; its text is meant for people."""


class ConfigError(AgentError):
    """A config file with one or more mistakes; `lines` holds one sentence per mistake."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        super().__init__("\n".join(lines))


class UsageError(AgentError):
    """Something the user gave us cannot be used."""

    def __init__(self, what: str, mend: str) -> None:
        super().__init__(f"{what}. {mend}")


class AddressTakenError(UsageError):
    """We cannot listen where we should; `what` is the sentence without its mend, for who has another one."""

    def __init__(self, listen: str, reason: str) -> None:
        self.what = f"cannot listen on {listen}: {reason}"
        mend = "Is another agent running? Set server.listen to another port: server: {listen: 127.0.0.1:9471}."
        super().__init__(self.what, mend)


class StateError(AgentError):
    """A state file that cannot be used, and must not be replaced."""

    def __init__(self, path: Path, what: str, mend: str) -> None:
        super().__init__(f"{path}: the state file cannot be used: {what}. {mend}")


class DeliveryError(AgentError):
    """An output refused or did not answer."""

    def __init__(self, where: str, what: str) -> None:
        super().__init__(f"{where}: {what}")
