"""A real vLLM server on the CPU, and the client that vLLM brings, whose figures ours are compared with."""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from live_http import get_text
from live_parts import VLLM_SCRIPT, free_port
from live_process import Server, command_line, descendants

START_SECONDS = 420.0  # 45 s on an idle machine
BENCH_SECONDS = 600.0


@dataclass(slots=True)
class RealVllm:
    """One server on one port, over its restarts. `installed` is what real_vllm.sh installed, `folder` is for logs.

    `options` and `environment` come on top of the script's.
    """

    installed: Path
    folder: Path
    port: int = field(default_factory=free_port)
    server: Server | None = None
    options: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Nothing to do where it serves already."""
        if self.server is not None and self.server.exit_code() is None:
            return
        command = ["bash", VLLM_SCRIPT, "serve", self.installed, str(self.port), *self.options]
        self.server = Server(command, self.folder / "vllm.log", self.environment)
        self.server.start_until("vLLM answers /health", START_SECONDS, lambda: get_text(f"{self.url}/health") == "")

    def kill(self) -> None:
        assert self.server is not None, "not started"
        self.server.kill()

    def stop(self) -> None:
        if self.server is not None:
            self.server.stop()

    def engine_core(self) -> int:
        """The process that computes; the API server, which answers /health and /metrics, is its parent."""
        assert self.server is not None, "not started"
        (pid,) = [pid for pid in descendants(self.server.pid) if command_line(pid).startswith("VLLM::EngineCore")]
        return pid

    def bench(self, **options: object) -> dict[str, Any]:
        """One `vllm bench serve` and nothing before it (no trial request); its detailed result. Times are seconds."""
        result = self.folder / "bench.json"
        words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
        command = ["bash", VLLM_SCRIPT, "bench", self.installed, str(self.port), "--ready-check-timeout-sec", "0"]
        command += ["--disable-tqdm", "--save-result", "--save-detailed", "--result-filename", result, *words]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=BENCH_SECONDS, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        answer: dict[str, Any] = json.loads(result.read_text())
        return answer
