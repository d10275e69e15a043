"""How a target is reached: secrets by the files or variables that hold them, certificates, a proxy."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator

HeaderName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")]


class Auth(BaseModel):
    """Who we are to a target, and how we get there; secrets and certificates are read anew at every use."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bearer_token_file: Path | None = Field(None, description="File that holds the bearer token.")
    bearer_token_env: str | None = Field(None, description="Environment variable that holds the bearer token.")
    headers_files: dict[HeaderName, Path] = Field(
        default_factory=dict, description="Further headers, each with the file that holds its value."
    )
    headers_env: dict[HeaderName, str] = Field(
        default_factory=dict, description="Further headers, each with the environment variable that holds its value."
    )
    ca_file: Path | None = Field(None, description="PEM file of the authorities to trust instead of the system's.")
    client_cert_file: Path | None = Field(None, description="PEM file of our own certificate, for mTLS.")
    client_key_file: Path | None = Field(None, description="Its key; default: in the same file.")
    proxy_url: str | None = Field(
        None, description="HTTP proxy on the way there; those of the environment are not used."
    )
    proxy_auth_file: Path | None = Field(None, description="File that holds user:password for the proxy.")

    @field_validator("proxy_url")
    @classmethod
    def _proxy_without_password(cls, url: str | None) -> str | None:
        parts = urlsplit(url or "http://none")
        if parts.scheme != "http" or not parts.hostname:
            raise ValueError("expected an address such as http://proxy:3128")
        if parts.username or parts.password:
            raise ValueError("no user or password in an address: put user:password into a file: proxy_auth_file")
        return url

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        is_empty = not any(getattr(self, name) for name in type(self).model_fields)
        if is_empty or (self.bearer_token_file is not None and self.bearer_token_env is not None):
            raise ValueError("expected exactly one of bearer_token_file and bearer_token_env")
        if self.client_key_file is not None and self.client_cert_file is None:
            raise ValueError("client_key_file needs client_cert_file")
        if self.proxy_auth_file is not None and self.proxy_url is None:
            raise ValueError("proxy_auth_file needs proxy_url")
        return self

    def token(self) -> str:
        """The secret, or "" where the file or variable is not there (the target then answers 401, which is told)."""
        return _secret(self.bearer_token_file, self.bearer_token_env)

    def headers(self) -> dict[str, str]:
        """The further headers with their values of now; without those whose value is not there."""
        return {name: value for name, value in self._headers() if value}

    def proxy_auth(self) -> str:
        """user:password for the proxy, or ""."""
        return _secret(self.proxy_auth_file, None)

    def _headers(self) -> Iterator[tuple[str, str]]:
        for name, path in self.headers_files.items():
            yield name, _secret(path, None)
        for name, variable in self.headers_env.items():
            yield name, _secret(None, variable)


def _secret(path: Path | None, variable: str | None) -> str:
    """One line of text from a file or a variable; "" where it is not there, or could not stand in a header."""
    if variable is not None:
        value = os.environ.get(variable, "").strip()
    elif path is not None:
        try:
            value = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            return ""
    else:
        return ""
    return value if value.isprintable() else ""
