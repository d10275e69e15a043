"""Units of config fields, with the bounds in which they make sense."""

from typing import Annotated

from pydantic import Field

Seconds = Annotated[float, Field(ge=0.01, lt=1e8, allow_inf_nan=False)]  # 10 ms is finer than any job, 3 years longer
