"""Directed networks in files: BIF (the interchange format 0.15) and XMLBIF (0.3), with the names of variables and states.

A variable's probabilities given its parents become a factor on the parents and the variable. Every count is checked against
what the file holds before anything is made of that size, and what is wrong is said with its line. Of XML only elements and
text are read: a file that declares or uses entities is refused, and nothing outside the file is looked at.
"""

import math
import os
import re
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn
from xml.parsers import expat

import numpy as np

from qtcore.errors import InputError
from qtcore.models.uai import MAX_DIGITS, MAX_ORDER, Floats, is_number, text_of

SUM_TOLERANCE = 0.01
"""Files hold rounded numbers: probabilities that add up to 1 this nearly are divided by their sum, others are refused."""

MAX_ENTRIES = 2**26
"""Of one table; only a `default` of BIF can ask for a table that is larger than the file."""


class Network(NamedTuple):
    """A directed network as it is in a file."""

    variables: dict[str, tuple[str, ...]]
    """The names of the states, by the name of the variable."""
    scopes: list[tuple[str, ...]]
    """For each variable, in the order of the file: its parents, then the variable itself."""
    tables: list[Floats]
    """Probabilities, with the axes of a scope; they add up to 1 over the last one."""


class _Draft:
    """A network in the making. Its methods raise a ValueError with what is wrong, to which a reader adds the line."""

    def __init__(self) -> None:
        self.network = Network({}, [], [])
        self._defined: set[str] = set()

    def add_variable(self, name: str, states: Sequence[str]) -> None:
        if name in self.network.variables:
            raise ValueError(f"the variable {_short(name)} is declared twice")
        if not name or not states or not all(states):
            raise ValueError(f"the variable {_short(name)} needs a name, and at least one state with a name")
        if len(set(states)) < len(states):
            twice = next(state for k, state in enumerate(states) if state in states[:k])
            raise ValueError(f"the variable {_short(name)} has the state {_short(twice)} twice")
        self.network.variables[name] = tuple(states)

    def scope(self, child: str, parents: Sequence[str]) -> tuple[str, ...]:
        """Parents, then the child, all of them known and different."""
        scope = (*parents, child)
        for k, name in enumerate(scope):
            if name not in self.network.variables:
                raise ValueError(
                    f"the probabilities of {_short(child)} name {_short(name)}, but no such variable is declared before"
                )
            if name in scope[:k]:
                raise ValueError(f"the probabilities of {_short(child)} name {_short(name)} twice")
        if child in self._defined:
            raise ValueError(f"the probabilities of {_short(child)} are given twice")
        if len(scope) > MAX_ORDER:
            raise ValueError(f"the variable {_short(child)} has {len(parents)} parents, but {MAX_ORDER - 1} are the most")
        return scope

    def shape(self, scope: Sequence[str]) -> tuple[int, ...]:
        return tuple(len(self.network.variables[name]) for name in scope)

    def add_table(self, scope: tuple[str, ...], table: Floats) -> None:
        sums = table.sum(-1)
        wrong = np.abs(sums - 1) > SUM_TOLERANCE
        if wrong.any():
            first = np.unravel_index(int(wrong.argmax()), sums.shape)
            given = ", ".join(f"{n} = {self.network.variables[n][s]}" for n, s in zip(scope[:-1], first, strict=True))
            raise ValueError(
                f"the probabilities of {_short(scope[-1])}{f' given {given[:200]}' if given else ''} add up to "
                f"{float(sums[first]):.6g}, not to 1"
            )
        self._defined.add(scope[-1])
        self.network.scopes.append(scope)
        self.network.tables.append(table / sums[..., None])

    def end(self) -> Network:
        """The network, if all is there."""
        if not self.network.variables:
            raise ValueError("there is no variable in it")
        missing = [name for name in self.network.variables if name not in self._defined]
        if missing:
            raise ValueError(f"there are no probabilities of the variable {_short(missing[0])}")
        self._refuse_cycles()
        return self.network

    def _refuse_cycles(self) -> None:
        waiting = {scope[-1]: len(scope) - 1 for scope in self.network.scopes}
        children: dict[str, list[str]] = {}
        for *parents, child in self.network.scopes:
            for parent in parents:
                children.setdefault(parent, []).append(child)
        ready = [name for name, count in waiting.items() if count == 0]
        while ready:
            name = ready.pop()
            del waiting[name]
            for child in children.get(name, ()):
                waiting[child] -= 1
                if waiting[child] == 0:
                    ready.append(child)
        if waiting:
            raise ValueError(f"the variable {_short(min(waiting))} is among its own ancestors, or below some that are")


def _short(name: str) -> str:
    return repr(name[:60])


def _probabilities(words: Sequence[str], what: str) -> Floats:
    """Numbers ≥ 0; a `_WrongWord` for anything else."""
    try:
        numbers = np.array(words, dtype=np.float64)
    except ValueError:
        bad = next(k for k, word in enumerate(words) if not is_number(word))
        raise _WrongWordError(f"{what} should be numbers, but there is {words[bad][:40]!r}", bad) from None
    wrong = ~(np.isfinite(numbers) & (numbers >= 0))
    if wrong.any():
        bad = int(wrong.argmax())
        raise _WrongWordError(f"{what} should be finite and not negative, but there is {words[bad][:40]}", bad)
    return numbers


class _WrongWordError(ValueError):
    def __init__(self, what: str, place: int) -> None:
        super().__init__(what)
        self.place = place


# ---------------------------------------------------------------------- BIF

TOKEN = re.compile(r'//[^\n]*|/\*(?:.*?\*/|.*)|"[^"\n]*"|[{}()\[\];]|[^\s{}()\[\];,|"]+|"', re.DOTALL)
"""Comments, quoted names, punctuation, words; "," and "|" separate like white space."""

PUNCTUATION = frozenset('{}()[];"')


class _Tokens:
    """The words of a BIF file, taken one after the other."""

    def __init__(self, path: "str | os.PathLike[str]") -> None:
        self.path, self.text = Path(path), text_of(path)
        found = [match for match in TOKEN.finditer(self.text) if not match[0].startswith(("//", "/*"))]
        self.words = [match[0] for match in found]
        self.starts = [match.start() for match in found]
        self.next = 0

    def refuse(self, what: str, place: int | None = None) -> NoReturn:
        """Raise an InputError about a word, by default the one that was taken last."""
        place = max(0, min(self.next - 1 if place is None else place, len(self.starts) - 1))
        line = self.text.count("\n", 0, self.starts[place]) + 1 if self.starts else 1
        raise InputError(f"{self.path}, line {line}: {what}.")

    def take(self, what: str) -> str:
        if self.next == len(self.words):
            self.refuse(f"the file ends where {what} should be")
        self.next += 1
        return self.words[self.next - 1]

    def peek(self) -> str:
        return self.words[self.next] if self.next < len(self.words) else ""

    def expect(self, word: str, what: str) -> None:
        found = self.take(what)
        if found.lower() != word:
            self.refuse(f"{what} should be here, not {found[:40]!r}")

    def name(self, what: str) -> str:
        word = self.take(what)
        if word in PUNCTUATION:
            self.refuse(f"{what} should be here, not {word!r}")
        return word[1:-1] if word.startswith('"') else word

    def names(self, end: str, what: str) -> list[str]:
        """Names up to a closing bracket, which is taken too."""
        result = []
        while self.peek() != end:
            result.append(self.name(f"{what}, or {end!r} after the last one,"))
        self.next += 1
        return result

    def skip_to(self, end: str, what: str) -> None:
        while self.take(what) != end:
            pass


def read_bif(path: "str | os.PathLike[str]") -> Network:
    """The network in a BIF file; raise an InputError, with the line, for anything that is wrong."""
    tokens, draft = _Tokens(path), _Draft()
    tokens.expect("network", "the word network")
    tokens.skip_to("{", "'{'")
    tokens.skip_to("}", "'}' after the properties of the network")
    while tokens.next < len(tokens.words):
        kind = tokens.take("a block").lower()
        start = tokens.next - 1
        try:
            if kind == "variable":
                _bif_variable(tokens, draft)
            elif kind == "probability":
                _bif_probability(tokens, draft)
            else:
                tokens.refuse(f"a block should begin with variable or probability, not {kind[:40]!r}")
        except _WrongWordError as error:
            tokens.refuse(str(error), error.place)
        except InputError:
            raise
        except ValueError as error:
            tokens.refuse(str(error), start)
    try:
        return draft.end()
    except ValueError as error:
        raise InputError(f"{path}: {error}.") from error


def _bif_variable(tokens: _Tokens, draft: _Draft) -> None:
    name = tokens.name("the name of a variable")
    states: list[str] | None = None
    tokens.expect("{", "'{'")
    while (word := tokens.take(f"'}}' after the variable {_short(name)}")) != "}":
        if word.lower() == "property":
            tokens.skip_to(";", "';' after a property")
            continue
        if word.lower() != "type" or states is not None:
            tokens.refuse(f"the type of {_short(name)}, once, or a property should be here, not {word[:40]!r}")
        tokens.expect("discrete", "the word discrete: variables of other types cannot be read, and it")
        tokens.expect("[", "'['")
        count = tokens.take("the number of states")
        if not (count.isascii() and count.isdigit()):
            tokens.refuse(f"the number of states should be a whole number, not {count[:40]!r}")
        tokens.expect("]", "']'")
        tokens.expect("{", "'{'")
        states = tokens.names("}", f"a state of {_short(name)}")
        if len(count) > MAX_DIGITS or int(count) != len(states):
            tokens.refuse(f"the variable {_short(name)} is said to have {count[:40]} states, but {len(states)} are named")
        tokens.expect(";", "';'")
    if states is None:
        tokens.refuse(f"the variable {_short(name)} has no type")
    draft.add_variable(name, states)


def _bif_probability(tokens: _Tokens, draft: _Draft) -> None:
    tokens.expect("(", "'('")
    child, *parents = tokens.names(")", "a variable") or [""]
    scope = draft.scope(child, parents)
    shape, what = draft.shape(scope), f"the probabilities of {_short(child)}"
    tokens.expect("{", "'{'")
    table, default = None, None
    rows: dict[tuple[int, ...], Floats] = {}
    while (word := tokens.take(f"'}}' after {what}")) != "}":
        if word.lower() == "property":
            tokens.skip_to(";", "';' after a property")
        elif word == "(":
            given = tuple(_state(tokens, draft, parent) for parent in parents)
            tokens.expect(")", f"')' after {len(parents)} states")
            if given in rows:
                tokens.refuse(f"{what} are given twice for the same states of its parents")
            rows[given] = _numbers(tokens, shape[-1], what)
        elif word.lower() == "default" and default is None:
            default = _numbers(tokens, shape[-1], what)
        elif word.lower() == "table" and table is None:
            table = _numbers(tokens, math.prod(shape), what)
        else:
            tokens.refuse(f"table, default or states of the parents in brackets should be here, once each, not {word[:40]!r}")
    if table is not None:
        if rows or default is not None:
            raise ValueError(f"{what} are given as a table and by states of its parents; one is enough")
        # The variable itself stands first in the list, and the last one runs fastest.
        draft.add_table(scope, np.moveaxis(table.reshape(shape[-1], *shape[:-1]), 0, -1))
        return
    missing = math.prod(shape[:-1]) - len(rows)
    if missing and default is None:
        raise ValueError(f"{what} are missing for {missing} of {missing + len(rows)} combinations of states of its parents")
    if math.prod(shape) > MAX_ENTRIES:
        raise ValueError(f"{what} would be a table of {math.prod(shape)} numbers; {MAX_ENTRIES} are the most")
    filled = np.empty(shape)
    if default is not None:
        filled[...] = default
    for given, row in rows.items():
        filled[given] = row
    draft.add_table(scope, filled)


def _state(tokens: _Tokens, draft: _Draft, variable: str) -> int:
    name, known = tokens.name(f"a state of {_short(variable)}"), draft.network.variables[variable]
    if name not in known:
        tokens.refuse(f"the variable {_short(variable)} has no state {_short(name)}")
    return known.index(name)


def _numbers(tokens: _Tokens, count: int, what: str) -> Floats:
    """So many numbers, and the semicolon after them."""
    start = tokens.next
    while tokens.take(f"';' after {what}") != ";":
        pass
    words = tokens.words[start : tokens.next - 1]
    if len(words) != count:
        tokens.refuse(f"{what} should be {count} numbers here, but there are {len(words)}", start)
    try:
        return _probabilities(words, what)
    except _WrongWordError as error:
        error.place += start
        raise


# ---------------------------------------------------------------------- XMLBIF

INSIDE = {
    "": {"BIF"},
    "BIF": {"NETWORK"},
    "NETWORK": {"NAME", "PROPERTY", "VARIABLE", "DEFINITION"},
    "VARIABLE": {"NAME", "OUTCOME", "PROPERTY"},
    "DEFINITION": {"FOR", "GIVEN", "TABLE", "PROPERTY"},
}
"""Which elements may stand in which; the others hold text."""

SYNONYMS = {"VALUE": "OUTCOME", "PROBABILITY": "DEFINITION"}
"""Names of version 0.2."""


class _Element:
    """An open element: the texts of its children by their names, each in pieces with the line of each."""

    def __init__(self, name: str, line: int) -> None:
        self.name, self.line = name, line
        self.pieces: list[tuple[int, str]] = []
        self.children: dict[str, list[_Element]] = {}

    @property
    def text(self) -> str:
        return "".join(piece for _, piece in self.pieces).strip()

    def texts(self, name: str) -> list[str]:
        return [child.text for child in self.children.get(name, ())]

    def line_of_word(self, number: int) -> int:
        whole = "".join(piece for _, piece in self.pieces)
        starts, end = [], 0
        for _, piece in self.pieces:
            starts.append(end)
            end += len(piece)
        place = next(match.start() for k, match in enumerate(re.finditer(r"\S+", whole)) if k == number)
        return self.pieces[bisect_right(starts, place) - 1][0]


class _XML:
    """The handlers of an XML parser that reads one network."""

    def __init__(self, path: "str | os.PathLike[str]") -> None:
        self.path, self.draft = path, _Draft()
        self.open = [_Element("", 1)]
        self.networks = 0
        self.parser: Any = expat.ParserCreate()
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.text
        self.parser.EntityDeclHandler = self.entity
        self.parser.SkippedEntityHandler = self.entity
        self.parser.ExternalEntityRefHandler = self.entity

    def refuse(self, what: str, line: int | None = None) -> NoReturn:
        raise InputError(f"{self.path}, line {line or self.parser.CurrentLineNumber}: {what}.")

    def entity(self, *_: Any) -> NoReturn:
        self.refuse("the file declares or uses entities, which are not read; write the text itself")

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name, around = tag.upper(), self.open[-1].name
        name = SYNONYMS.get(name, name)
        if name not in INSIDE.get(around, ()):
            where = f"in <{around}>" if around else "as the outermost element, which is <BIF>"
            self.refuse(f"there is an element <{tag[:40]}> {where}")
        kind = {key.upper(): value for key, value in attributes.items()}.get("TYPE", "nature")
        if name == "VARIABLE" and kind not in ("nature", "discrete"):
            self.refuse(f"variables of the type {kind[:40]!r} cannot be read; nature is a random variable")
        self.networks += name == "NETWORK"
        if self.networks > 1:
            self.refuse("there is a second network; a file holds one")
        self.open.append(_Element(name, self.parser.CurrentLineNumber))

    def text(self, text: str) -> None:
        element = self.open[-1]
        if element.name not in INSIDE:
            element.pieces.append((self.parser.CurrentLineNumber, text))
        elif text.strip():
            self.refuse(f"there is text in <{element.name}>: {text.strip()[:40]!r}")

    def end(self, tag: str) -> None:
        element = self.open.pop()
        try:
            if element.name == "VARIABLE":
                (name,) = self.one(element, "NAME").texts("NAME")
                self.draft.add_variable(name, element.texts("OUTCOME"))
            elif element.name == "DEFINITION":
                self.define(element)
            elif element.name not in ("NETWORK", "PROPERTY"):
                self.open[-1].children.setdefault(element.name, []).append(element)
        except InputError:
            raise
        except ValueError as error:
            self.refuse(str(error), element.line)

    def one(self, element: _Element, name: str) -> _Element:
        """The element, which has exactly one child of that name."""
        if len(element.children.get(name, ())) != 1:
            count = len(element.children.get(name, ()))
            self.refuse(f"a <{element.name}> should have one <{name}>, but has {count}", element.line)
        return element

    def define(self, element: _Element) -> None:
        (child,) = self.one(element, "FOR").texts("FOR")
        scope = self.draft.scope(child, element.texts("GIVEN"))
        (table,) = self.one(element, "TABLE").children["TABLE"]
        shape, words, what = self.draft.shape(scope), table.text.split(), f"the probabilities of {_short(child)}"
        if len(words) != math.prod(shape):
            self.refuse(f"{what} should be {math.prod(shape)} numbers, but there are {len(words)}", table.line)
        try:
            numbers = _probabilities(words, what)
        except _WrongWordError as error:
            self.refuse(str(error), table.line_of_word(error.place))
        self.draft.add_table(scope, numbers.reshape(shape))


def read_xmlbif(path: "str | os.PathLike[str]") -> Network:
    """The network in an XMLBIF file; raise an InputError, with the line, for anything that is wrong."""
    reader = _XML(path)
    try:
        reader.parser.Parse(Path(path).read_bytes(), True)
        return reader.draft.end()
    except expat.ExpatError as error:
        raise InputError(f"{path}, line {error.lineno}: this is no XML ({expat.ErrorString(error.code)}).") from error
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist.") from error
    except InputError:
        raise
    except (OSError, LookupError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}.") from error
