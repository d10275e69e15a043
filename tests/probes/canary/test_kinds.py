"""The kinds beside chat: what each sends, and the figures that only it has."""

import asyncio
import re
from dataclasses import replace

import pytest
from nasty_server import DONE, GOOD, Script, chunk, event, head, nasty_server, reply, token, usage

from probes.canary.filler import filler, fresh_salt
from probes.canary.gibberish import gibberish
from probes.canary.kind_figures import KIND_FIGURES
from probes.canary.prober import Prober
from probes.canary.task import Elsewhere, ProbeTask, Route
from probes.catalogue import CANARIES
from probes.clock import ScaledClock, SystemClock

TASK = ProbeTask(target="t", url="", model="m", token="tok", prompt="hi", max_tokens=4)
MODELS = reply("200 OK", {"object": "list", "data": [{"id": "m"}, {"id": "n"}]})


def says(text: str, *, finish: str = "stop", logprob: object = None, **more: object) -> Script:
    """A whole answer in one token; with the token's log probability where one is given."""
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    if logprob is not None:
        choice["logprobs"] = {"content": [{"token": text, "logprob": logprob}]}
    return (head(), event({"id": "c", "model": "m", "choices": [choice]} | more), usage(1), DONE)


def cached(count: int) -> bytes:
    """The last word of a server that tells how much of the prompt its cache held."""
    counts = {"prompt_tokens": 101, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": count}}
    return event({"id": "c", "model": "m", "choices": [], "usage": counts})


async def test_models_lists_and_asks_the_engine_nothing() -> None:
    async with nasty_server((MODELS,)) as server:
        result = await Prober(SystemClock()).probe(replace(TASK, url=f"http://127.0.0.1:{server.port}", kind="models"))
    assert server.requests[0].startswith(b"GET /v1/models ")
    assert (result.outcome, result.figures["models"], result.ttft_seconds) == ("ok", 2.0, None)
    assert set(result.figures) == set(KIND_FIGURES["models"])
    assert (result.figures["response_seconds"] or 0.0) > 0.0
    assert not result.feels_like_a_user


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (MODELS, "model_not_found"),
        (reply("200 OK", {"data": []}), "no_model"),
        (reply("503 Service Unavailable", {"detail": "loading"}), "unavailable"),
        (head("200 OK", "text/html") + b"<html>", "content_type"),
    ],
)
async def test_models_that_are_not_as_they_should_be(answer: bytes, outcome: str) -> None:
    async with nasty_server((answer,)) as server:
        task = replace(TASK, url=f"http://127.0.0.1:{server.port}", kind="models", model="gone")
        assert (await Prober(SystemClock()).probe(task)).outcome == outcome


async def test_a_plain_completion_has_all_its_figures() -> None:
    """Its chunks have `text` in the choice itself."""

    def said(text: str, used: int, finish: str | None = None) -> bytes:
        choice = {"index": 0, "text": text, "finish_reason": finish}
        return event({"id": "cmpl-1", "model": "m", "choices": [choice], "usage": {"completion_tokens": used}})

    script = (head(), said("a", 1), 0.01, said("b", 2), 0.01, said("c", 3, "length"), usage(3), DONE)
    async with nasty_server(script) as server:
        task = replace(TASK, url=f"http://127.0.0.1:{server.port}", kind="completion")
        result = await Prober(SystemClock()).probe(task)
    assert server.requests[0].startswith(b"POST /v1/completions ")
    assert server.body()["prompt"] == "hi"
    assert (result.outcome, result.output_tokens, len(result.itl_gaps_seconds)) == ("ok", 3, 2)
    assert result.first_text_seconds == result.ttft_seconds
    assert result.feels_like_a_user


async def test_a_cold_and_a_warm_half_under_one_salt_of_their_own() -> None:
    """100 of the 101 prompt tokens can be reused; the cache held 96."""
    cold = (0.05, *GOOD[:-2], cached(0), DONE)
    warm = (*GOOD[:-2], cached(96), DONE)
    async with nasty_server(cold, warm) as server:
        task = replace(
            TASK, url=f"http://127.0.0.1:{server.port}", kind="kv_reuse", prompt="", prompt_tokens=80, gap_seconds=0.01
        )
        result = await Prober(SystemClock()).probe(task)
    first, second = server.body(0), server.body(1)
    assert first == second
    assert re.fullmatch(r"slo-[a-z2-7]{12}", first["cache_salt"])
    assert first["messages"][0]["content"].startswith(first["cache_salt"])
    figures = result.figures
    assert result.outcome == "ok"
    assert set(figures) == set(KIND_FIGURES["kv_reuse"])
    assert (figures["cold_cached_tokens"], figures["warm_cached_tokens"]) == (0.0, 96.0)
    assert figures["reused_ratio"] == 0.96
    assert figures["answers_equal"] == 1.0
    assert (figures["warm_ttft_seconds"] or 9.0) < (figures["cold_ttft_seconds"] or 0.0)
    assert (figures["gap_seconds"] or 0.0) >= 0.01


@pytest.mark.parametrize(
    ("warm", "flag"),
    [
        ((*GOOD[:-2], cached(0), DONE), "not_reused"),
        (GOOD, "cached_tokens_unknown"),
        (
            (head(), chunk({"content": "another"}, used=1), chunk({}, finish="length", used=2), usage(2), DONE),
            "answers_differ",
        ),
    ],
)
async def test_what_a_pair_may_show(warm: Script, flag: str) -> None:
    async with nasty_server(GOOD, warm) as server:
        task = replace(TASK, url=f"http://127.0.0.1:{server.port}", kind="kv_reuse", gap_seconds=0.01)
        result = await Prober(SystemClock()).probe(task)
    assert result.is_ok
    assert flag in result.flags


async def test_a_long_gap_is_waited_for_between_two_runs() -> None:
    """At 1000 times the speed: begun in the first run, not yet due in the second (a short pair), read in the third."""
    prober = Prober(ScaledClock(speed=1000.0, epoch_seconds=0.0))
    async with nasty_server(GOOD) as server:
        task = replace(
            TASK, url=f"http://127.0.0.1:{server.port}", kind="kv_reuse", gap_seconds=600.0, total_timeout_seconds=1e4,
            first_token_timeout_seconds=1e4, connect_timeout_seconds=1e4, stall_timeout_seconds=1e4,
        )  # fmt: skip
        begun = await prober.probe(task)
        early = await prober.probe(replace(task, gap_seconds=600.0))
        await asyncio.sleep(0.65)
        late = await prober.probe(task)
    assert "pair_begun" in begun.flags
    assert begun.figures["gap_seconds"] is None
    assert 5.0 <= (early.figures["gap_seconds"] or 0.0) < 600.0
    assert (late.figures["gap_seconds"] or 0.0) >= 600.0
    salts = [server.body(number)["cache_salt"] for number in range(4)]
    assert salts[0] == salts[3] != salts[1] == salts[2]


async def test_a_failed_cold_half_is_the_result_and_begins_nothing() -> None:
    async with nasty_server((reply("500 Internal Server Error", {}),), GOOD) as server:
        prober = Prober(SystemClock())
        task = replace(TASK, url=f"http://127.0.0.1:{server.port}", kind="kv_reuse", gap_seconds=60.0)
        assert (await prober.probe(task)).outcome == "server_error"
    assert server.connections == 1
    assert not prober.memory.seeds


async def test_a_long_prompt_is_new_each_time() -> None:
    async with nasty_server(GOOD) as server:
        task = replace(TASK, url=f"http://127.0.0.1:{server.port}", kind="long_prompt", prompt_tokens=500)
        prober = Prober(SystemClock())
        results = [await prober.probe(task) for _ in range(2)]
    prompts = [server.body(number)["messages"][0]["content"] for number in range(2)]
    assert prompts[0] != prompts[1]
    assert all(490 <= len(prompt.split()) <= 510 for prompt in prompts)
    assert set(results[0].figures) == set(KIND_FIGURES["long_prompt"])
    assert results[0].figures["prefill_tokens_per_second"] == pytest.approx(9 / (results[0].ttft_seconds or 1))


async def test_the_shape_of_an_even_and_of_a_buffered_stream() -> None:
    even = (head(), *(step for n in range(1, 5) for step in (token(n), 0.01)), chunk({}, finish="stop", used=4), DONE)
    lump = (head(), b"".join(step for step in even[1:] if isinstance(step, bytes)))
    shapes = []
    for script in (even, lump):
        async with nasty_server(script) as server:
            task = replace(TASK, url=f"http://127.0.0.1:{server.port}", kind="streaming_shape")
            shapes.append(await Prober(SystemClock()).probe(task))
    assert (shapes[0].figures["token_events"], shapes[1].figures["token_events"]) == (4.0, 4.0)
    assert shapes[0].figures["pieces"] == 4.0
    assert (shapes[1].figures["pieces"], shapes[1].figures["largest_piece_ratio"]) == (1.0, 1.0)
    assert "buffered_stream" in shapes[1].flags


QUESTION = replace(TASK, kind="correctness", prompt="7 plus 5?", expected="12", max_tokens=32)


async def answers(*scripts: Script, times: int | None = None) -> list[tuple[str, tuple[str, ...]]]:
    """Outcome and flags of one prober's runs."""
    prober = Prober(SystemClock())
    async with nasty_server(*scripts) as server:
        task = replace(QUESTION, url=f"http://127.0.0.1:{server.port}")
        results = [await prober.probe(task) for _ in range(times or len(scripts))]
    assert all(set(r.figures) in (set(), set(KIND_FIGURES["correctness"])) for r in results)
    return [(result.outcome, result.flags) for result in results]


async def test_62_a_wrong_answer_is_told_at_the_second_strike() -> None:
    """A right one in between begins anew; 120 is not 12."""
    told = await answers(says("It is 120."), says("12"), says("13"), says("14"), says("The answer is 12."))
    assert [outcome for outcome, _ in told] == ["ok", "ok", "ok", "wrong_answer", "ok"]
    assert "wrong_answer_once" in told[0][1]
    assert "wrong_answer_once" not in told[1][1]


async def test_54_an_answer_that_does_not_stop_is_flagged() -> None:
    ((outcome, flags),) = await answers(says("Well, let us think", finish="length"))
    assert outcome == "ok"
    assert {"cut_short", "wrong_answer_once"} <= set(flags)


async def test_57_an_answer_that_only_reasons_says_nothing_about_right_and_wrong() -> None:
    silent = (head(), chunk({"reasoning_content": "hm"}), chunk({}, finish="stop"), DONE)
    told = await answers(silent, times=3)
    assert [outcome for outcome, _ in told] == ["ok"] * 3
    assert all("inconclusive" in flags for _, flags in told)


async def test_63_a_model_that_is_less_sure_than_in_its_baseline_drifts() -> None:
    """Eight answers at -0.1 are the baseline; 0.5 nats more are allowed, -3.0 is not, twice in a row."""
    baseline = [says("12", logprob=-0.1)] * 8
    told = await answers(*baseline, says("12", logprob=-0.3), says("12", logprob=-3.0), says("12", logprob=-3.0))
    assert [outcome for outcome, _ in told[8:]] == ["ok", "ok", "drift"]
    assert "drift_once" in told[9][1]


async def test_63_another_version_has_another_baseline() -> None:
    old = [says("12", logprob=-0.1, system_fingerprint="v1")] * 8
    new = [says("12", logprob=-3.0, system_fingerprint="v2")] * 3
    assert {outcome for outcome, _ in await answers(*old, *new)} == {"ok"}


@pytest.mark.parametrize("logprob", [float("nan"), float("-inf"), "x"])
async def test_63_a_log_probability_that_is_no_number(logprob: object) -> None:
    ((outcome, _),) = await answers(says("12", logprob=logprob))
    assert outcome == "protocol"


async def test_64_garbage_is_told_at_once() -> None:
    ((outcome, _),) = await answers(says("!" * 40))
    assert outcome == "garbage_output"


@pytest.mark.parametrize(
    ("text", "is_gibberish"),
    [
        ("", False),
        ("12", False),
        ("!!!!", False),  # too short to judge
        ("!" * 30, True),
        ("the the the the the the the the the the the the the", True),
        ("\ufffd\ufffd\ufffdab cd ef \ufffd\ufffd\ufffd", True),
        ("One, two, three, four, five, six, seven, eight", False),
        ("aaaa bbbb cccc dddd", False),
        ("\u4e00\u4e8c\u4e09\u56db\u4e94\u516d\u4e03\u516b\u4e5d\u5341\u5341\u4e00\u5341\u4e8c", False),
    ],
)
def test_64_what_is_gibberish(text: str, is_gibberish: bool) -> None:  # noqa: FBT001 - a column
    assert (gibberish(text) is not None) == is_gibberish


def test_a_salt_is_taken_by_vllm_and_makes_another_text() -> None:
    """At most 128 characters, and none of at, slash, backslash, NUL."""
    one, other = fresh_salt(), fresh_salt()
    assert one != other
    assert not set(one) & set("@/\\\0")
    assert filler(50, one) == filler(50, one) != filler(50, other)


@pytest.mark.parametrize("item", CANARIES, ids=lambda item: item.model_fields["kind"].default)
def test_every_kind_costs_at_most_what_it_says(item: type) -> None:
    """A task never asks for more output than the cost names, and dear kinds are those with tokens of their own."""
    canary = item()
    cost, task = canary.cost(), canary.fill(ProbeTask("t", "http://h"))
    assert task.kind == canary.kind
    assert cost.requests >= 1
    if cost.output_tokens:
        assert cost.output_tokens >= task.max_tokens
    assert canary.is_dear == (canary.kind not in ("chat", "models", "completion", "responses", "embedding"))


def response(*events: dict[str, object]) -> Script:
    """A Responses stream of these events."""
    return (head(), *(event(one) for one in events))


RESPONSE = {"id": "resp_1", "model": "m"}
USAGE = {"input_tokens": 9, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 0}}
TOLD = (
    {"type": "response.created", "response": RESPONSE},
    {"type": "response.output_item.added", "item": {"type": "message"}},
    {"type": "response.output_text.delta", "delta": "one"},
    {"type": "response.output_text.delta", "delta": " two"},
)


async def test_a_response_has_the_figures_of_a_chat() -> None:
    """Structural events are no tokens; the terminal one counts them; neither [DONE] nor its absence is a fault."""
    end = {"type": "response.completed", "response": RESPONSE | {"usage": USAGE}}
    for tail in ((), (DONE,)):
        async with nasty_server((*response(*TOLD, end), *tail)) as server:
            task = replace(TASK, url=f"http://127.0.0.1:{server.port}", kind="responses")
            result = await Prober(SystemClock()).probe(task)
        assert (result.outcome, result.output_tokens, result.prompt_tokens, result.cached_tokens) == ("ok", 2, 9, 0)
        assert (result.ttft_seconds or 0) > 0
        assert not {"done_missing", "data_after_done", "malformed_chunk"} & set(result.flags)
    assert server.requests[0].startswith(b"POST /v1/responses ")
    assert (server.body()["store"], server.body()["max_output_tokens"]) == (False, 4)
    assert server.body()["request_id"] == result.request_id  # vLLM calls a response by it, and not by X-Request-Id
    assert result.request_id.startswith("slo-canary-")


async def test_a_server_that_takes_no_request_id_for_a_response_is_asked_without_one() -> None:
    refusal = (reply("400 Bad Request", {"error": {"message": "Unknown parameter: 'request_id'."}}),)
    end = {"type": "response.completed", "response": RESPONSE | {"usage": USAGE}}
    async with nasty_server(refusal, (*response(*TOLD, end), DONE)) as server:
        task = replace(TASK, url=f"http://127.0.0.1:{server.port}", kind="responses")
        result = await Prober(SystemClock()).probe(task)
    assert result.outcome == "ok"
    assert "request_id" not in server.body()


async def test_an_embedding_is_asked_for_in_json_and_known_as_ours() -> None:
    """vLLM takes no other type of body, and its span has the id that we sent."""
    async with nasty_server(*embedded([0.6, 0.8])) as server:
        task = replace(TASK, url=f"http://127.0.0.1:{server.port}", kind="embedding")
        result = await Prober(SystemClock()).probe(task)
    head = server.requests[0].decode().lower()
    assert "content-type: application/json" in head
    assert f"x-request-id: {result.request_id}" in head
    assert result.request_id.startswith("slo-canary-")
    assert "text/event-stream" not in head


async def test_an_embedding_tells_what_the_engine_counted_of_it() -> None:
    """One request that ends with its first token: TTFT is E2E, and nothing was generated."""
    async with nasty_server(*embedded([0.6, 0.8])) as server:
        task = replace(TASK, url=f"http://127.0.0.1:{server.port}", kind="embedding", rank="1")
        result = await Prober(SystemClock()).probe(task)
    (sent,) = result.sent
    assert (sent.ttft_seconds, sent.tpot_seconds, sent.itl_gaps_seconds) == (result.e2e_seconds, None, ())
    assert (sent.e2e_seconds, sent.head_seconds) == (result.e2e_seconds, 0.0)
    assert (sent.prompt_tokens, sent.output_tokens, sent.finish_reason, sent.rank) == (9, 0, "stop", "1")
    assert sent.timing_error_seconds == result.timing_error_seconds


async def test_an_embedding_that_was_refused_is_counted_by_no_engine() -> None:
    async with nasty_server((reply("404 Not Found", {"error": {"message": "no such path"}}),)) as server:
        result = await Prober(SystemClock()).probe(
            replace(TASK, url=f"http://127.0.0.1:{server.port}", kind="embedding")
        )
    (sent,) = result.sent
    assert (sent.first_token_at_seconds, sent.finish_reason) == (None, "")


INCOMPLETE = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}


@pytest.mark.parametrize(
    ("end", "response_end", "reason"),
    [
        ("response.completed", {"status": "completed"}, "stop"),
        ("response.incomplete", INCOMPLETE, "length"),
        ("response.completed", INCOMPLETE, "length"),  # as vLLM 0.32 says it
        ("response.completed", {"status": "incomplete"}, "length"),
        ("response.completed", {"status": "cancelled"}, "abort"),
    ],
)
async def test_a_response_ends_as_the_engine_counts_it(end: str, response_end: dict[str, object], reason: str) -> None:
    """The status tells, and not the event: vLLM calls every end `response.completed`, and counts one of `length`."""
    script = response(*TOLD, {"type": end, "response": RESPONSE | {"usage": USAGE} | response_end})
    async with nasty_server(script) as server:
        task = replace(TASK, url=f"http://127.0.0.1:{server.port}", kind="responses")
        result = await Prober(SystemClock()).probe(task)
    assert [sent.finish_reason for sent in result.sent] == [reason]


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        ({"type": "response.incomplete", "response": {"incomplete_details": {"reason": "max_output_tokens"}}}, "ok"),
        ({"type": "response.incomplete", "response": {"incomplete_details": {"reason": "content_filter"}}}, "aborted"),
        ({"type": "response.failed", "response": {"error": {"message": "gone"}}}, "stream_error"),
        ({"type": "response.in_progress", "response": RESPONSE}, "truncated"),
    ],
)
async def test_how_a_response_may_end(end: dict[str, object], outcome: str) -> None:
    async with nasty_server(response(*TOLD, end)) as server:
        task = replace(TASK, url=f"http://127.0.0.1:{server.port}", kind="responses")
        assert (await Prober(SystemClock()).probe(task)).outcome == outcome


def embedded(*vectors: object) -> tuple[Script, ...]:
    """A server that answers with these vectors in turn."""
    return tuple((reply("200 OK", {"data": [{"embedding": v}], "usage": {"prompt_tokens": 9}}),) for v in vectors)


@pytest.mark.parametrize(
    ("vectors", "outcome"),
    [
        (([0.6, 0.8], [0.6, 0.8]), "ok"),
        (([0.6, 0.8], [0.599, 0.801]), "ok"),  # batching moves digits
        (([0.0, 0.0],), "wrong_answer"),
        (([0.6, 0.8], [0.6, 0.8, 0.0]), "wrong_answer"),
        (([0.6, 0.8], [0.8, -0.6]), "drift"),
        (([0.6, float("nan")],), "protocol"),
        (("mpkZP83MTD8=",), "protocol"),  # base64, though numbers were asked for
        (([],), "protocol"),
    ],
)
async def test_66_an_embedding_is_a_vector_and_the_same_one(vectors: tuple[object, ...], outcome: str) -> None:
    prober = Prober(SystemClock())
    async with nasty_server(*embedded(*vectors)) as server:
        task = replace(TASK, url=f"http://127.0.0.1:{server.port}", kind="embedding")
        results = [await prober.probe(task) for _ in vectors]
    assert results[-1].outcome == outcome
    assert [result.outcome for result in results[:-1]] == ["ok"] * (len(vectors) - 1)
    assert set(results[-1].figures) == set(KIND_FIGURES["embedding"])


async def test_a_broken_first_vector_is_no_measure_for_the_next() -> None:
    prober = Prober(SystemClock())
    async with nasty_server(*embedded([0.0, 0.0], [0.6, 0.8])) as server:
        task = replace(TASK, url=f"http://127.0.0.1:{server.port}", kind="embedding")
        assert [(await prober.probe(task)).outcome for _ in range(2)] == ["wrong_answer", "ok"]


async def test_the_model_and_its_adapters_take_turns() -> None:
    """Of the list, those whose parent is the model; another model's adapter is none of them."""
    cards = [
        {"id": "m"},
        {"id": "l2", "parent": "m"},
        {"id": "l1", "parent": "m"},
        {"id": "x", "parent": "n"},
        {"id": "n"},
    ]
    listing = (reply("200 OK", {"data": cards}),)
    asked = []
    for turn in range(4):
        async with nasty_server(listing, GOOD) as server:
            task = replace(TASK, url=f"http://127.0.0.1:{server.port}", adapter_turn=turn)
            await Prober(SystemClock()).probe(task)
            asked.append(server.body()["model"])
    assert asked == ["m", "l1", "l2", "m"]


async def test_a_rank_is_asked_for_in_the_header() -> None:
    async with nasty_server(GOOD) as server:
        task = replace(TASK, url=f"http://127.0.0.1:{server.port}", rank="1")
        result = await Prober(SystemClock()).probe(task)
    assert b"X-data-parallel-rank: 1" in server.requests[0]
    assert result.rank == "1"


def test_questions_and_gaps_take_turns() -> None:
    """One after the other; each round begins with the next one, so that a model's two adapters meet every question."""
    by_kind = {item.model_fields["kind"].default: item for item in CANARIES}
    gaps = by_kind["kv_reuse"](interval_seconds=300, gaps_seconds=[1, 60])
    tasks = [gaps.fill(ProbeTask("t", "http://h", turn=turn)) for turn in range(5)]
    assert [task.gap_seconds for task in tasks] == [1, 60, 60, 1, 1]
    questions = by_kind["correctness"](adapters=True)
    tasks = [questions.fill(ProbeTask("t", "http://h", turn=turn)) for turn in range(9)]
    assert [task.expected for task in tasks[:3]] == ["12", "Paris", "green"]
    assert len({((task.adapter_turn or 0) % 3, task.expected) for task in tasks}) == 9


async def test_a_pair_is_of_one_rank() -> None:
    """What the other rank is asked in between begins a pair of its own: its cache has never seen the prompt."""
    prober = Prober(SystemClock())
    salts = []
    async with nasty_server(*[(head(), token(1), token(2, finish="stop"), usage(2), DONE)] * 3) as server:
        for rank in ("0", "1", "0"):
            task = replace(TASK, url=f"http://127.0.0.1:{server.port}", kind="kv_reuse", gap_seconds=6.0, rank=rank)
            await prober.probe(task)
            salts.append(server.body()["cache_salt"])
            seeds = prober.memory.seeds
            prober.memory.seeds = {place: replace(seed, due_at_seconds=0.0) for place, seed in seeds.items()}
    assert salts[0] == salts[2] != salts[1]


async def test_the_warm_half_may_go_to_another_instance_as_that_is_reached() -> None:
    """With its own key and headers, and to no rank of it; the result is of the one that was asked cold."""
    cold, warm = ((head(), token(1), token(2, finish="stop"), cached(count), DONE) for count in (0, 96))
    async with nasty_server(cold) as here, nasty_server(warm) as other:
        there = Elsewhere("b", f"http://127.0.0.1:{other.port}", "m", "tok-b", Route(headers=(("x-tenant", "b"),)))
        url = f"http://127.0.0.1:{here.port}"
        task = replace(TASK, url=url, kind="kv_reuse", gap_seconds=0.01, rank="1", elsewhere=there, prompt_tokens=80)
        result = await Prober(SystemClock()).probe(task)
        asked = [server.requests[0].decode().lower() for server in (here, other)]
        assert here.body()["cache_salt"] == other.body()["cache_salt"]
    assert (result.target, result.rank, result.outcome) == ("t", "1", "ok")
    assert (result.figures["cold_cached_tokens"], result.figures["warm_cached_tokens"]) == (0.0, 96.0)
    assert ["bearer tok-b" in words for words in asked] == [False, True]
    assert ["x-tenant: b" in words for words in asked] == [False, True]
    assert ["x-data-parallel-rank" in words for words in asked] == [True, False]
    sent = result.sent_by_target()
    assert {name: [one.cached_tokens for one in them] for name, them in sent.items()} == {"t": [0], "b": [None]}


async def test_one_rank_that_answers_wrong_is_told_beside_one_that_answers_right() -> None:
    """Two strikes in a row are counted by rank: with the other's right answers between them they are still two."""
    prober = Prober(SystemClock())
    outcomes = []
    wrong, right = says("no idea at all"), says("It is green.")
    async with nasty_server(*(wrong, right) * 2) as server:
        for rank in ("0", "1") * 2:
            task = replace(TASK, url=f"http://127.0.0.1:{server.port}", kind="correctness", expected="green", rank=rank)
            outcomes.append((await prober.probe(task)).outcome)
    assert outcomes == ["ok", "ok", "wrong_answer", "ok"]
