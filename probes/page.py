"""From a metrics page to a `Reading`: one reader per target, with its memory of series."""

from collections.abc import Mapping

from probes.assembly import Assembled, Plan, make_plan
from probes.books import BOOKS, System
from probes.exposition import PageParser, PageValues
from probes.place import Place, Placer
from probes.sample import PageWarning, Reading
from probes.systems import detect_system

MOST_ENGINES = 512  # of one target, with the models they serve: adapters and tenants in a label may be thousands

__all__ = ["BOOKS", "System", "SystemPage"]


class SystemPage:
    """Reads the pages of one target of a known system."""

    def __init__(self, system: System) -> None:
        self._book = BOOKS[system]
        self._placer = Placer(self._book)
        self._left_out: int = 0
        self._most_series: int = 0
        self._forget()

    def read(self, text: str, target: str, at_seconds: float) -> Reading:
        """Everything our signals need from `text`; what is missing or odd stands in `warnings`."""
        if self._parser.is_full or self._has_no_room:
            self._forget()
        page = self._parser.parse(text)
        return self._reading(page, text, target, at_seconds)

    def needs(self, exposed: str) -> bool:
        """Whether series of that name can matter."""
        return self._placer.is_needed(exposed)

    def number(self, exposed: str, labels: Mapping[str, str]) -> int | None:
        """What a series means, as a number that `assemble` takes; None for one that no signal needs."""
        return self._number(exposed, labels)

    def assemble(self, values: dict[int, float], target: str, at_seconds: float) -> Reading:
        """The reading of a page that comes as finite numbers by `number` instead of as text."""
        return self._reading(PageValues(values, series=len(values)), "", target, at_seconds)

    def _reading(self, page: PageValues[int], text: str, target: str, at_seconds: float) -> Reading:
        found = self._plan_of(page.values).fill(page.values)
        warnings = _warnings(page, found)
        if self._left_out:
            warnings = (*warnings, self._too_many(page))
        if not self._is_ours(found):
            return Reading(
                target,
                self._book.system,
                at_seconds,
                outcome="not_" + self._book.system,
                detail=self._why_not(text, page.series),
                warnings=warnings,
                body_bytes=len(text),
            )
        return Reading(
            target,
            self._book.system,
            at_seconds,
            samples=found.samples,
            histograms=found.histograms,
            process_start_seconds=found.process_start_seconds,
            warnings=warnings,
            body_bytes=len(text),
        )

    def _too_many(self, page: PageValues[int]) -> PageWarning:
        """Told while engines are left out; the next look begins anew where known ones, or other series, are gone."""
        there = {(self._places[number].engine, self._places[number].model) for number in page.values}
        self._has_no_room = len(there) < len(self._engines) or page.series < self._most_series
        self._most_series = max(self._most_series, page.series)
        words = f"{self._left_out} series are of further engines or models; of one target {MOST_ENGINES} are read"
        return PageWarning("too_many_engines", words)

    def _why_not(self, text: str, series: int) -> str:
        """Why a page has nothing for us, in words; another system's page is called by its name."""
        system, its = self._book.system, detect_system(text)
        if its not in (None, system):
            return f"this is a page of {its}, and not of {system}; write kind: {its}, or another address"
        wanted = self._book.needed or ("any signal",)
        return (
            f"the page has {series} series, but none that gives {wanted[0]}; "
            f"is this a {system} server, and are its metrics on?"
        )

    def _is_ours(self, found: Assembled) -> bool:
        if not self._book.needed:
            return bool(found.samples or found.histograms)
        return any(sample.signal in self._book.needed for sample in found.samples)

    def _forget(self) -> None:
        """Begin anew: no series is known."""
        self._places: list[Place] = []
        self._numbers: dict[Place, int] = {}
        self._planned: list[int] = []
        self._engines: set[tuple[str, str]] = set()
        self._left_out = self._most_series = 0
        self._has_no_room = False
        self._plan = Plan()
        self._parser: PageParser[int] = PageParser(self._number, self._placer.is_needed)

    def _number(self, exposed: str, labels: Mapping[str, str]) -> int | None:
        """The number of the series' place; two series of one place have one number."""
        place = self._placer.place(exposed, labels)
        if place is None or not self._has_room(place):
            return None
        number = self._numbers.setdefault(place, len(self._places))
        if number == len(self._places):
            self._places.append(place)
        return number

    def _has_room(self, place: Place) -> bool:
        """Whether its engine, with its model, is one of those that are read."""
        if len(self._engines) < MOST_ENGINES:
            self._engines.add((place.engine, place.model))
        is_known = (place.engine, place.model) in self._engines
        self._left_out += not is_known
        return is_known

    def _plan_of(self, values: Mapping[int, float]) -> Plan:
        """The plan of the look before, where the page has the same series."""
        present = list(values)
        if present != self._planned:
            self._plan = make_plan({number: self._places[number] for number in present})
            self._planned = present
        return self._plan


def _warnings(page: PageValues[int], found: Assembled) -> tuple[PageWarning, ...]:
    told = (
        ("malformed", page.malformed, "lines could not be read"),
        ("not_finite", page.not_finite + found.too_large, "values were NaN, infinite or above 1e30: unknown"),
        ("duplicates", page.duplicates, "series were given twice; the first counts"),
        ("dropped_series", page.dropped_series, "series were beyond the limit and not read"),
        ("over_one", found.over_one, "ratios were above 1: as 1 up to 1.1, beyond that as unknown"),
        ("odd_histograms", found.odd_histograms, "histograms lack their +Inf bucket or fall; they count as unknown"),
    )
    return tuple(PageWarning(code, f"{count} {words}") for code, count, words in told if count)
