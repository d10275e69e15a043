"""`slo-agent demo`: what it needs is told before the story begins, with the option that mends it."""

import socket

import pytest

from agent.cli import main


def test_a_taken_port_names_the_option_of_the_demo(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main(["demo", "--speed", "20", "--listen", listen, "--exit"]) == 2
    assert capsys.readouterr().err == (
        f"slo-agent: cannot listen on {listen}: address already in use. "
        "Is another agent running? Give --listen 127.0.0.1:9471.\n"
    )


def test_the_help_has_the_limits_of_the_speed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["demo", "--help"])
    assert "1 to 100; default: 20" in " ".join(capsys.readouterr().out.split())
