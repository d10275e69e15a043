"""`slo-agent check`: what it says about the example config, and about discovery that is not as it should be."""

from pathlib import Path

import pytest
from recorded import recording

from agent.cli import main
from agent.commands.check import some

TARGET = "targets: [{name: a, url: 'http://a:8000'}]\n"
EXAMPLE = Path(__file__).parents[3] / "deploy" / "agent.example.yaml"


def test_the_example_is_good_and_every_promise_has_its_times(capsys: pytest.CaptureFixture[str]) -> None:
    """The first pair of a 99.9 % objective is 14.4 over an hour: a full outage burns at 1000, so 14.4/1000 of an hour
    is 52 s; at twice the budget no page is due. Canaries: every 30 s are 120 an hour, of at most 16 tokens each.
    """
    assert main(["check", "-c", str(EXAMPLE)]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{EXAMPLE}: good.\n")
    assert "targets (2)" in out
    assert "vllm-0" in out
    assert "http://127.0.0.1:8001/metrics" in out
    slos = [line for line in out.splitlines() if line.startswith("SLO ")]
    assert len(slos) >= 2
    outages = [line for line in out.splitlines() if line.strip().startswith("full outage  ")]
    assert len(outages) == len(slos)
    assert all("paged after" in line for line in outages)
    assert "each target: 120 requests/h" in out
    assert "at most 1,920 output tokens/h" in out
    assert "Traceback" not in out


def test_a_full_outage_of_99_9_percent_pages_after_52_seconds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(
        TARGET + "canaries: []\nslos: [{name: s, sli: ttft, objective_ratio: 0.999, threshold_seconds: 2.5}]\n"
    )
    assert main(["check", "-c", str(path)]) == 0
    out = capsys.readouterr().out
    assert "SLO s: 99.9 % of what llm does is good over 30d (engine)" in out
    assert "  full outage            paged after 52 s (fast);" in out
    assert "  0.2 % bad, 2x budget   no page, it burns too slowly for one; ticket after 36.0 h (trend)" in out
    assert "EngineUnreachable pages 30 s\nafter its last page (scrape.down_after_seconds)" in out
    assert "no canaries" in out
    assert "alertmanager.urls is empty" in out


@pytest.mark.parametrize(
    ("sli", "hangs"),
    [
        ("ttft, threshold_seconds: 2", "bad once it is late, 2 s on"),
        ("availability, threshold_seconds: 300", "bad once it is late, 300 s on"),
        ("goodput", "bad once it is late, 2.5 s on"),
        ("tpot, threshold_seconds: 0.05", "not seen by this SLO"),
        ("stall, threshold_seconds: 1", None),
    ],
)
def test_every_sli_says_what_becomes_of_a_request_that_hangs(
    sli: str, hangs: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of a canary ends at its own timeout, so nothing is said of it."""
    path = tmp_path / "c.yaml"
    path.write_text(TARGET + f"slos: [{{name: s, sli: {sli}, objective_ratio: 0.99}}]\n")
    assert main(["check", "-c", str(path)]) == 0
    out = capsys.readouterr().out
    assert ("a request that hangs is" in out) == (hangs is not None)
    assert hangs is None or f"  a request that hangs is {hangs}\n" in out


def test_what_each_canary_costs_is_told_before_it_is_sent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """1024 fresh tokens 12 times an hour: 12 * 1024 * 0.210 s / 8192 = 0.315 s of stall, 12 * 64 blocks."""
    path = tmp_path / "c.yaml"
    path.write_text(TARGET + "canaries: [{kind: models}, {kind: kv_reuse, interval_seconds: 300}]\n")
    assert main(["check", "-c", str(path)]) == 0
    out = capsys.readouterr().out
    assert "canary models: every 30 s on 1 target\n" in out
    assert "each target: 120 requests/h, no tokens" in out
    assert "each target: 24 requests/h, about 24,576 prompt and at most 192 output tokens/h" in out
    assert "stalls each running stream by about 0.32 s/h" in out
    assert "up to 768 KV blocks of 16 tokens" in out


def test_the_cost_of_a_canary_says_nothing_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An embedding has no output tokens and no prompt of its own; a canary an hour is one request."""
    path = tmp_path / "c.yaml"
    path.write_text(TARGET + "canaries: [{kind: embedding, interval_seconds: 3600}]\n")
    assert main(["check", "-c", str(path)]) == 0
    out = capsys.readouterr().out
    assert "each target: 1 request/h, about 11 prompt and no output tokens/h;" in out
    assert "may push hardly any KV blocks of 16 tokens out of the cache an hour" in out


def test_bad_discovery_is_a_warning_not_a_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, path = tmp_path / "t.json", tmp_path / "c.yaml"
    path.write_text(f"discovery: [{{kind: file, path: {found}}}, {{kind: file, path: {tmp_path / 'none.json'}}}]\n")
    found.write_text('[{"targets": ["a b", "good:8000"], "labels": {"role": "decode"}}]')
    assert main(["check", "-c", str(path)]) == 0
    out = capsys.readouterr().out
    assert "targets (1)" in out
    assert "http://good:8000/metrics" in out
    assert f"warning: {found}: target 'a b' is left out" in out
    assert f"warning: {tmp_path / 'none.json'}: No such file" in out


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "slos: []\n"])
def test_a_config_that_watches_nothing_is_not_good(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    assert main(["check", "-c", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"{path}: nothing is watched. Add `targets: [")


def slos(*services: str) -> str:
    rows = "".join(
        f"  - {{name: s{n}, service: {service}, sli: ttft, objective_ratio: 0.9, threshold_seconds: 2.5}}\n"
        for n, service in enumerate(services)
    )
    return f"slos:\n{rows}"


@pytest.mark.parametrize(
    ("services", "of_target", "warning"),
    [
        (("chat", "chta"), None, 'the services "chat" and "chta" differ by little'),
        (("chta",), "chat", 'the services "chta" and "chat" differ by little'),
        (("code",), "chat", 'no target belongs to service "code": its SLOs count nothing. Targets have chat.'),
        (("chat", "chat", "llm"), None, 'only SLO s2 has service "llm", all others have "chat"'),
        (("chat", "chat", "code", "code"), None, None),
        (("chat",), "chat", None),
        (("chat", "code"), None, None),
        (("chat-eu", "chat-us"), None, None),
        (("chat-1", "chat-2"), None, None),
        (("chat", "chat-batch"), None, None),
        (("chatbot", "chat-bot"), None, 'the services "chatbot" and "chat-bot" differ by little'),
        (("Chat", "chat"), None, 'the services "Chat" and "chat" differ by little'),
        (("chat-summary", "chat-sumary"), None, 'the services "chat-summary" and "chat-sumary" differ by little'),
    ],
)
def test_a_service_that_looks_like_a_slip_is_a_warning(
    services: tuple[str, ...],
    of_target: str | None,
    warning: str | None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "c.yaml"
    service = f", service: {of_target}" if of_target else ""
    path.write_text(f"targets: [{{name: a, url: 'http://a:8000'{service}}}]\n" + slos(*services))
    assert main(["check", "-c", str(path)]) == 0
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("warning") and "ervice" in line]
    assert len(told) == (1 if warning else 0), told
    assert not warning or warning in told[0]


def test_a_derived_pair_is_told_beside_the_standard_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """At 95 % the standard page pair needs 14.4 * 5 % = 72 % bad events; the derived one 40 %."""
    path = tmp_path / "c.yaml"
    path.write_text(
        "targets: [{name: a, url: 'http://127.0.0.1:9'}]\n"
        "slos: [{name: s, sli: ttft, objective_ratio: 0.95, threshold_seconds: 2.5}]\n"
    )
    assert main(["check", "-c", str(path)]) == 0
    out = capsys.readouterr().out
    assert "page/fast              108m and 9m above 8 times; the standard 1h above 14.4 needs 72% bad events" in out
    assert "page/slow              6h and 30m above 6 times\n" in out


@pytest.mark.parametrize("traffic", ["0", "-5", "1e300"])
def test_a_traffic_that_is_none_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str], traffic: str) -> None:
    config = tmp_path / "agent.yaml"
    config.write_text("targets: [{name: a, url: 'http://a'}]\n", encoding="utf-8")
    assert main(["check", "-c", str(config), "--traffic", traffic]) == 2
    assert "expected requests an hour above 0" in capsys.readouterr().err


def test_pages_by_chance_at_a_given_traffic_and_of_months_like_a_recording(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """30 minutes of 2 requests a second, all good: 7,200 an hour, and months like it never page."""
    config = tmp_path / "agent.yaml"
    slos = "slos: [{name: up, sli: ttft, objective_ratio: 0.99, threshold_seconds: 0.1}]"
    config.write_text(f"targets: [{{name: a, url: 'http://a'}}]\n{slos}\n", encoding="utf-8")
    assert main(["check", "-c", str(config)]) == 0
    assert "unknown without its traffic: give --traffic or --recording" in capsys.readouterr().out
    assert main(["check", "-c", str(config), "--traffic", "600"]) == 0
    assert "under 0.01 pages a month at 600 requests an hour, exactly on budget" in capsys.readouterr().out
    history = recording(tmp_path / "r.jsonl.gz", 1_800)
    assert main(["check", "-c", str(config), "--recording", str(history)]) == 0
    out = capsys.readouterr().out
    assert "at 7,200 requests an hour" in out
    assert "months like REC        0 pages a month (30 min of history, resampled in blocks of 3 min)" in out
    assert "(it is short: a week holds the busy and the quiet hours)" in out


@pytest.mark.parametrize(
    ("pages", "said"), [(0.0, "0"), (0.034, "0.034"), (2.66, "2.7"), (512.3, "512"), (4200, "4,200")]
)
def test_pages_a_month_are_a_number_that_people_write(pages: float, said: str) -> None:
    assert some(pages) == said


def test_what_one_failed_canary_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """120 canaries an hour at 99.9 %: one of them burns 8.3 times; more than 14.4 are 2, and 3 are needed at least."""
    config = tmp_path / "agent.yaml"
    slos = "slos: [{name: up, sli: availability, source: canary, objective_ratio: 0.999}]"
    config.write_text(f"targets: [{{name: a, url: 'http://a'}}]\n{slos}\n", encoding="utf-8")
    assert main(["check", "-c", str(config)]) == 0
    out = capsys.readouterr().out
    assert "burns 8.3 times over 1h, and does not page: it takes 3 of 120 in 1h" in out


def test_each_slo_of_canaries_is_told_by_those_that_it_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Known questions, every 300 s, are 12 an hour; what users ask is 120 of chat and 60 of completion; each of its own
    service's target alone. A correctness SLO needs no other kind beside it.
    """
    config = tmp_path / "agent.yaml"
    targets = "targets: [{name: a, url: 'http://a', service: s}, {name: b, url: 'http://b', service: z}]"
    right = "{name: right, service: s, sli: correctness, source: canary, objective_ratio: 0.99}"
    up = "{name: up, service: s, sli: availability, source: canary, objective_ratio: 0.99}"
    config.write_text(f"{targets}\ncanaries: [{{kind: correctness}}]\nslos: [{right}]\n", encoding="utf-8")
    assert main(["check", "-c", str(config)]) == 0
    alone = capsys.readouterr().out
    assert "at 12 canaries an hour" in alone
    assert "burns 8.3 times over 1h, and does not page: it takes 3 of 12 in 1h" in alone
    canaries = "canaries: [{kind: correctness}, {kind: chat}, {kind: completion}]"
    config.write_text(f"{targets}\n{canaries}\nslos: [{right}, {up}]\n", encoding="utf-8")
    assert main(["check", "-c", str(config)]) == 0
    both = capsys.readouterr().out
    assert "at 12 canaries an hour" in both
    assert "at 180 canaries an hour" in both


def test_two_canaries_that_are_the_same_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pasted twice, a canary is sent twice as often as it says; one that asks something else is another one."""
    config = tmp_path / "agent.yaml"
    config.write_text(TARGET + "canaries: [{kind: models}, {kind: chat}, {kind: chat}]\n", encoding="utf-8")
    assert main(["check", "-c", str(config)]) == 0
    assert "warning: canaries[2], of kind chat, is the same as one before it: both are sent." in capsys.readouterr().out
    config.write_text(TARGET + "canaries: [{kind: chat, prompt: Hello}, {kind: chat}]\n", encoding="utf-8")
    assert main(["check", "-c", str(config)]) == 0
    assert "is the same as" not in capsys.readouterr().out


def test_slices_are_judged_after_their_end_and_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three bad slices of 5 min take 15 min, though 14.4 times 1 % of an hour would be over sooner; 12 come an hour."""
    sliced = "slice_seconds: 300, slice_good_ratio: 0.95"
    path = tmp_path / "c.yaml"
    path.write_text(
        TARGET + f"slos: [{{name: s, sli: ttft, objective_ratio: 0.99, threshold_seconds: 2.5, {sliced}}}]\n"
    )
    assert main(["check", "-c", str(path)]) == 0
    out = capsys.readouterr().out
    assert "SLO s: 99 % of all slices of 5m of what llm does is good over 30d (engine)" in out
    assert "good means: at least 95% of the events of 5m: TTFT at most 2.5 s" in out
    assert "full outage            paged after 15.0 min (fast);" in out
    assert "each slice is judged 30 s after its end: these times may be 5.5 min longer" in out
    assert "at 12 slices an hour, exactly on budget" in out
    assert "holds less than one slice" not in out
    path.write_text(path.read_text().replace("slice_seconds: 300", "slice_seconds: 600"))
    assert main(["check", "-c", str(path)]) == 0
    assert "short window of 300 s holds less than one slice of 600 s" in capsys.readouterr().out
