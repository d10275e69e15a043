"""The unions of config items: a part is there when its item stands here."""

from typing import Annotated, Final

from pydantic import Discriminator, Tag

from probes.canary.chat import ChatCanary
from probes.canary.completion import CompletionCanary
from probes.canary.correctness import CorrectnessCanary
from probes.canary.embedding import EmbeddingCanary
from probes.canary.item import CanaryItem
from probes.canary.kv_reuse import KvReuseCanary
from probes.canary.long_prompt import LongPromptCanary
from probes.canary.models import ModelsCanary
from probes.canary.responses import ResponsesCanary
from probes.canary.streaming_shape import StreamingShapeCanary

CANARIES: Final[tuple[type[CanaryItem], ...]] = (
    ChatCanary, ModelsCanary, CompletionCanary, ResponsesCanary, EmbeddingCanary, KvReuseCanary, CorrectnessCanary,
    LongPromptCanary, StreamingShapeCanary,
)  # fmt: skip
CANARY_KINDS: Final = tuple(item.model_fields["kind"].default for item in CANARIES)


def _kind_of(value: object) -> object:
    """The kind an entry names; chat where it names none."""
    return value.get("kind", "chat") if isinstance(value, dict) else getattr(value, "kind", None)


Canary = Annotated[
    Annotated[ChatCanary, Tag("chat")]
    | Annotated[ModelsCanary, Tag("models")]
    | Annotated[CompletionCanary, Tag("completion")]
    | Annotated[ResponsesCanary, Tag("responses")]
    | Annotated[EmbeddingCanary, Tag("embedding")]
    | Annotated[KvReuseCanary, Tag("kv_reuse")]
    | Annotated[CorrectnessCanary, Tag("correctness")]
    | Annotated[LongPromptCanary, Tag("long_prompt")]
    | Annotated[StreamingShapeCanary, Tag("streaming_shape")],
    Discriminator(_kind_of),
]


def default_canaries() -> list[Canary]:
    """What tells whether users are served, and the cheapest that tells why not."""
    return [ChatCanary(), ModelsCanary()]
