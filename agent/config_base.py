"""What every part of the config tree is made of."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

NAME = r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$"
LISTEN = r"^(\[[0-9a-fA-F:]+\]|[^:\s]+):\d{1,5}$"
FORMS = {  # what the patterns ask for, in words
    NAME: "1 to 63 letters, digits, '.', '_' or '-', with a letter or digit at both ends",
    LISTEN: "host:port, such as 127.0.0.1:9470",
    r"^/": "a path that begins with /",
}
Name = Annotated[str, StringConstraints(pattern=NAME)]
Ratio = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]

DAY_SECONDS = 86_400.0
LONGEST_SECONDS = 93 * DAY_SECONDS  # events are kept so long (agent/stats/time_buckets.py)


class Section(BaseModel):
    """Base of every part of the tree: unknown keys are refused, values cannot change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True)
