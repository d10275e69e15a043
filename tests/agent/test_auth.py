"""How a target is reached: secrets are read anew at every use, and what is missing is left out."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from agent.auth import Auth
from agent.config import Config
from agent.planning import page_target, probe_task


def test_headers_and_proxy_are_read_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And go to the canaries; token and headers to the metrics page, too."""
    key, proxy = tmp_path / "key", tmp_path / "proxy"
    auth = {
        "headers_files": {"X-Key": key}, "headers_env": {"X-Team": "A_TEAM"}, "ca_file": "/ca.pem",
        "proxy_url": "http://p:3128", "proxy_auth_file": proxy,
    }  # fmt: skip
    config = Config.model_validate({"targets": [{"name": "a", "url": "http://a:1", "auth": auth}]})
    target = config.targets[0]
    assert probe_task(config.canaries[0], target, None, 0.0).route.headers == ()
    key.write_text("one\n")
    proxy.write_text("me:pw\n")
    monkeypatch.setenv("A_TEAM", "slo")
    route = probe_task(config.canaries[0], target, None, 0.0).route
    assert route.headers == (("X-Key", "one"), ("X-Team", "slo"))
    assert (route.ca_file, route.proxy_url, route.proxy_auth) == ("/ca.pem", "http://p:3128", "me:pw")
    key.write_text("two\n")
    assert dict(page_target(config, target).headers)["X-Key"] == "two"


def test_a_value_that_is_no_single_line_is_left_out(tmp_path: Path) -> None:
    """It would end the header and begin another."""
    key = tmp_path / "key"
    key.write_text("one\r\nX-Evil: 1")
    assert Auth(headers_files={"X-Key": key}).headers() == {}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({}, "exactly one of bearer_token_file and bearer_token_env"),
        ({"bearer_token_env": "A", "bearer_token_file": "/b"}, "exactly one of"),
        ({"client_key_file": "/k"}, "client_key_file needs client_cert_file"),
        ({"proxy_url": "http://me:pw@p:1"}, "no user or password in an address"),
        ({"proxy_url": "socks5://p:1"}, "such as http://proxy:3128"),
        ({"proxy_auth_file": "/p"}, "proxy_auth_file needs proxy_url"),
        ({"headers_env": {"X Key": "A"}}, "pattern"),
    ],
)
def test_what_does_not_go_together(wrong: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Auth.model_validate(wrong)
