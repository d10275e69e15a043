"""From a YAML file to a `Config`, or to every mistake in it at once, each with file, path, value and mend."""

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from agent.config import Config
from agent.config_base import FORMS
from agent.config_checks import cross_checks
from agent.config_mends import mend_for
from agent.errors import ConfigError
from agent.pipe import read_pipe
from probes.catalogue import CANARIES, CANARY_KINDS

OTHER_SHAPES = {  # what pydantic says when a value is of another kind altogether, and what we say
    "model_type": "expected a mapping. Known here: {known}.",
    "dict_type": "expected a mapping. Known here: {known}.",
    "list_type": "expected a list: begin each entry with a dash. {about}",
    "string_type": "expected text, in quotes where it looks like something else. {about}",
}
SECRET_WORDS = ("token", "password", "secret", "authorization", "key")


def load_config(path: Path) -> Config:
    """The config in `path`. Raises ConfigError with one line per mistake."""
    try:
        text = read_pipe(path) if path.is_fifo() else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        is_text = not isinstance(error, UnicodeDecodeError)
        reason = (getattr(error, "strerror", None) or str(error)) if is_text else "it is not UTF-8 text"
        raise ConfigError([f"{path}: cannot be read: {reason}. Name a YAML file with -c."]) from None
    return parse_config(text, str(path))


def parse_config(text: str, where: str) -> Config:
    """The config in `text`; `where` names it in errors. Raises ConfigError with one line per mistake."""
    try:
        tree = yaml.load(text, Loader=_StrictLoader)  # noqa: S506  a SafeLoader
    except yaml.YAMLError as error:
        raise ConfigError([f"{where}: {_yaml_sentence(error)}"]) from None
    except (ValueError, RecursionError) as error:  # such as a date that is none
        raise ConfigError([f"{where}: holds a value that is none ({error}). Put it into quotes."]) from None
    if tree is None:
        tree = {}
    if not isinstance(tree, dict):
        raise ConfigError([f"{where}: holds a {type(tree).__name__}; expected a mapping such as `targets: [...]`."])
    config, mistakes, wrong = _validated(tree, where)
    mistakes += [f"{where}: {mistake}" for mistake in cross_checks(config, tree, wrong)]
    if mistakes:
        raise ConfigError(mistakes)
    return config


def _validated(tree: dict[Any, Any], where: str) -> tuple[Config, list[str], frozenset[str]]:
    """The config as far as it is right, a sentence for each mistake, and the parts that hold them."""
    try:
        return Config.model_validate(tree), [], frozenset()
    except ValidationError as error:
        wrong = frozenset(str(item["loc"][0]) for item in error.errors() if item["loc"])
        rest = {key: part for key, part in tree.items() if str(key) not in wrong}
        return Config.model_validate(rest), [_sentence(where, tree, item) for item in error.errors()], wrong


class _StrictLoader(yaml.SafeLoader):
    """SafeLoader that refuses a key given twice: YAML would silently keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002  the base class's signature
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a plain word", key_node.start_mark)
            if key_node.value in seen and key_node.tag != "tag:yaml.org,2002:merge":
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key_node.value!r} is given twice", key_node.start_mark
                )
            seen.add(key_node.value)
        return super().construct_mapping(node, deep)


def _yaml_sentence(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}. Mend the YAML there."
    return f"is not YAML ({str(error).splitlines()[0]}). Mend the YAML."


def _sentence(where: str, tree: object, item: Mapping[str, Any]) -> str:
    path, value = tuple(item["loc"]), item["input"]
    if item["type"] == "union_tag_invalid":  # an entry of a kind that there is not
        path, value = (*path, "kind"), item["ctx"]["tag"]
    spot = _spell(tree, path)
    if item["type"] == "extra_forbidden":
        near = difflib.get_close_matches(str(path[-1]), _keys_at(path[:-1]), n=1)
        mend = f'Did you mean "{near[0]}"?' if near else f"Known here: {', '.join(sorted(_keys_at(path[:-1])))}."
        return f"{where}: {spot} is not a known key. {mend}"
    if item["type"] == "missing":
        return f"{where}: {spot} is missing. {_describe(path)}"
    if item["type"] == "invalid_key":
        return f"{where}: the key {value} is no word. Known here: {', '.join(sorted(_keys_at(path[:-1])))}."
    shown = ":" if isinstance(value, dict | list) else f" is {_shown(path, value)};"
    meant = mend_for(path, value)
    return f"{where}: {spot}{shown} {_without_credentials(meant) if meant else _expected(path, item)}"


def _expected(path: Sequence[int | str], item: Mapping[str, Any]) -> str:
    """What would have been right, and the mend."""
    if item["type"] == "union_tag_not_found":
        return "expected a mapping such as {kind: chat}."
    if item["type"] in ("literal_error", "union_tag_invalid"):
        context = item["ctx"]
        told = context.get("expected") or context["expected_tags"]
        choices = [str(choice) for choice in told.replace(" or ", ", ").replace("'", "").split(", ")]
        item = {**item, "input": context.get("tag", item["input"])}
        near = difflib.get_close_matches(str(item["input"]), choices, n=1)
        hint = f' Did you mean "{near[0]}"?' if near else ""
        return f"expected one of {', '.join(choices)}.{hint}"
    if item["type"] == "value_error":  # our own validators' sentences hold the mend
        return f"{item['msg'].removeprefix('Value error, ')}."
    if item["type"] in OTHER_SHAPES:
        known = ", ".join(_keys_at(path)) or "names of your own"
        return OTHER_SHAPES[item["type"]].format(known=known, about=_describe(path))
    if item["type"] == "string_pattern_mismatch":
        return f"expected {FORMS[item['ctx']['pattern']]}."
    words = item["msg"][:1].lower() + item["msg"][1:].partition(", unable to parse")[0]
    for theirs, ours in (("input should be less", "expected a number less"),
                         ("input should be greater", "expected a number greater"),
                         ("input should be", "expected")):  # fmt: skip
        words = words.replace(theirs, ours)
    return f"{words}. {_describe(path)}".rstrip()


def _shown(path: Sequence[int | str], value: object) -> str:
    if any(word in str(part).lower().split("_") for part in path for word in SECRET_WORDS):
        return "(not shown)"
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return _without_credentials(text if len(text) <= 80 else text[:77] + "...")


def _without_credentials(text: str) -> str:
    credentials, at, rest = text.rpartition("@")
    scheme, separator, _ = credentials.partition("://")
    return f"{scheme + separator if separator else chr(34)}***@{rest}" if at else text


def _spell(tree: object, path: Sequence[int | str]) -> str:
    """`slos[2].objective_ratio`, leaving out the tags that pydantic adds for unions."""
    words, node = "", tree
    for part in path:
        if isinstance(part, int):
            words += f"[{part}]"
            node = node[part] if isinstance(node, list) and part < len(node) else None
        elif not _is_tag(part, node):
            words += f".{part}" if words else part
            node = node.get(part) if isinstance(node, dict) else None
    return words or "the file"


def _is_tag(part: str, node: object) -> bool:
    """Whether pydantic added this part to say which kind of an entry it tried."""
    return part in CANARY_KINDS and isinstance(node, dict) and node.get("kind", "chat") == part


def _section_at(path: Sequence[int | str]) -> type[BaseModel] | None:
    section: type[BaseModel] | None = Config
    for part in path:
        if isinstance(part, int):
            continue
        field = section.model_fields.get(part) if section else None
        if field is None and section is CANARIES[0] and part in CANARY_KINDS:
            section = CANARIES[CANARY_KINDS.index(part)]
        else:
            section = _model_in(field.annotation) if field else None
    return section


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in getattr(annotation, "__args__", ()):
        if found := _model_in(inner):
            return found
    return None


def _keys_at(path: Sequence[int | str]) -> list[str]:
    section = _section_at(path)
    return list(section.model_fields) if section else []


def _describe(path: Sequence[int | str]) -> str:
    """The field's own description, as the mend of last resort."""
    named = [part for part in path if isinstance(part, str)]
    if not named:
        return ""
    section = _section_at(path[: len(path) - 1 - list(reversed(path)).index(named[-1])])
    field = section.model_fields.get(named[-1]) if section else None
    return f"{named[-1]}: {field.description}" if field and field.description else ""
