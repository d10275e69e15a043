"""Rule: a GPU that is to be repaired: drained and replaced, reset, cooled, or its engine restarted.

The alert GPUFault tells that there is something; this tells what to do in which order, whose capacity is away
meanwhile, and how to take it back. Nothing here is predicted: a broken GPU has no model.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from agent.advice.gpu_faults import REPAIRS, GpuFault, Repair, gpu_faults
from agent.advice.scene import Scene
from agent.gpu_pods import gpu_pods
from agent.model import Recommendation

VERIFY_SECONDS = 1_800.0
RESET = "reset it (nvidia-smi --gpu-reset -i N), or restart the node where other GPUs share its NVLink"
BACK = "look that it gives figures without a fault, then let pods on the node again (kubectl uncordon NODE)"
REPORT = "save nvidia-bug-report.sh's report, and read the kernel log for the code's own words"
STEPS: dict[Repair, tuple[str, ...]] = {
    "replace": (REPORT, "send the GPU to its vendor and put another one in", BACK),
    "restart_node": (
        REPORT,
        "restart the node; with power off where a restart does not bring the GPU back",
        "a GPU that is lost again is to be replaced: look at its slot and power first",
        BACK,
    ),
    "reset": (REPORT, RESET, "the same fault again after a reset is a case for the vendor: replace it", BACK),
    "look_up": (REPORT, "look the code up in NVIDIA's Xid catalog, and do what it says", BACK),
    "cool": (
        "look at fans, air flow, inlet temperature and power supplies of the node, and at its neighbours",
        "compare its clock with those of GPUs of the same kind under the same load",
        BACK,
    ),
    "restart_engine": (
        "read the engine's log of that time; restart the engine where it died or answers no more",
        "after XID 94 reset the GPU when it suits: until then the bad row stays in use",
        "the same code again on this GPU alone is hardware: drain it and run dcgmi diag -r 3",
    ),
}
NAMES: dict[Repair, str] = {
    "replace": "Replace",
    "restart_node": "Drain and restart the node of",
    "reset": "Drain and reset",
    "look_up": "Drain and look into",
    "cool": "Look at cooling and power of",
    "restart_engine": "Look at the engine on",
}
CONFIDENCE: dict[Repair, float] = {
    "replace": 0.9,
    "restart_node": 0.9,
    "reset": 0.8,
    "look_up": 0.5,
    "cool": 0.7,
    "restart_engine": 0.6,
}


def gpu_repair(scene: Scene) -> Iterator[Recommendation]:
    """At most one per model, role and kind of repair, with all GPUs that need it; heaviest first."""
    found = faults_by_need(scene)
    for repair, model, role in sorted(found, key=lambda place: (REPAIRS.index(place[0]), place[1:])):
        yield _recommend(scene, repair, model, role, found[repair, model, role])


def faults_by_need(scene: Scene) -> dict[tuple[Repair, str, str], list[GpuFault]]:
    """The GPUs that have a fault now, by the repair they need, and by whose they are: model and role, "" if unknown."""
    found: dict[tuple[Repair, str, str], list[GpuFault]] = defaultdict(list)
    whose = _whose(scene)
    for fault in gpu_faults(scene.windows, scene.plan.down_after_seconds, scene.now_seconds):
        found[fault.repair, *whose.get(fault.target, ("", ""))].append(fault)
    return found


def _whose(scene: Scene) -> dict[str, tuple[str, str]]:
    """Model and role of the target whose processes are on each GPU, where it is known."""
    known = {status.name: (status.model, status.role) for status in scene.statuses}
    told = {gpu.gpu: [pod.target for pod in gpu.pods] for gpu in gpu_pods(scene.windows, scene.plan.targets)}
    return {
        gpu: owner for gpu, targets in told.items() if (owner := next((known[t] for t in targets if t in known), None))
    }


def _recommend(scene: Scene, repair: Repair, model: str, role: str, faults: Sequence[GpuFault]) -> Recommendation:
    names = ", ".join(fault.gpu for fault in faults)
    place = f" of node {scene.plan.node}" if scene.plan.node else ""
    whose = f"; it serves {model} ({role})" if model else ""
    serving = len(scene.groups().get((model, role), ()))
    count = float(len(faults))
    drains = repair not in ("restart_engine", "cool")
    return Recommendation(
        id=f"gpu-{repair}-{model or scene.plan.node or 'gpu'}-{role}-{scene.now_seconds:.0f}",
        at_seconds=scene.now_seconds,
        model=model,
        role=role,
        action="repair",
        current=0.0,
        proposed=count,
        low=count,
        high=count,
        reason_code=f"gpu_{repair}",
        binding="gpu",
        summary=(
            f"{NAMES[repair]} {names}{place}: "
            + "; ".join(f"{fault.gpu} {fault.words}" for fault in faults)
            + f"{whose}. See the alert GPUFault."
        ),
        confidence=CONFIDENCE[repair],
        meets_slo=None,
        evidence=tuple(figure for fault in faults for figure in fault.evidence),
        alternatives=tuple(
            {
                "setting": setting,
                "ttft_p95_seconds": None,
                "itl_p99_seconds": None,
                "goodput_ratio": None,
                "dollars_per_hour": None,
                "meets_slo": None,
            }
            for setting in (f"{NAMES[repair].lower()} {names}", "leave it in service")
        ),
        do_nothing={"summary": _if_left(repair), "meets_slo": None},
        side_effects=_side_effects(model, role, serving) if drains else ("none, until something is restarted",),
        steps=(*_drain(model, role, serving), *STEPS[repair]) if drains else STEPS[repair],
        rollback=(
            "let pods on the node again (kubectl uncordon NODE): nothing else was changed"
            if drains
            else "nothing was changed"
        ),
        verify_at_seconds=scene.now_seconds + VERIFY_SECONDS,
    )


def _if_left(repair: Repair) -> str:
    return {
        "replace": "bad memory stays in use: engines die or answer wrongly, at a time nobody chose",
        "restart_node": "what ran on it is away, and stays away",
        "reset": "the fault stays: what is started on it may die or hang again",
        "look_up": "not known: the code says",
        "cool": "every step takes longer for as long as it is slowed down; its engine is the slowest of its group",
        "restart_engine": "the engine may be half dead: look at its canaries",
    }[repair]


def _drain(model: str, role: str, serving: int) -> tuple[str, ...]:
    """Another replica first where the last one would go."""
    first = (f"bring up another replica of {model} ({role}) first: this one is the last",) if serving == 1 else ()
    return (
        *first,
        "keep new pods off the node (kubectl cordon NODE), and drain those with this GPU; allow their longest answer",
    )


def _side_effects(model: str, role: str, serving: int) -> tuple[str, ...]:
    if not model:
        return ("whose GPU it is is not known here: look at what runs on it before draining it",)
    return (
        f"{model} ({role}) has {max(0, serving - 1)} replicas instead of {serving} meanwhile",
        "what its prefix cache holds is lost",
    )
