"""Directed networks in BIF, the interchange format for Bayesian networks (version 0.15).

Every count is checked against what the file holds before anything is made of that size, and what is wrong is said with its
line.
"""

import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import numpy as np

from qtcore.errors import InputError
from qtcore.models.networks import Draft, Network, WrongWordError, probabilities, short
from qtcore.models.uai import MAX_DIGITS, Floats, text_of

MAX_ENTRIES = 2**26
"""Of one table; only a `default` of BIF can ask for a table that is larger than the file."""

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


def read(path: "str | os.PathLike[str]") -> Network:
    """The network in a BIF file; raise an InputError, with the line, for anything that is wrong."""
    tokens, draft = _Tokens(path), Draft()
    tokens.expect("network", "the word network")
    tokens.skip_to("{", "'{'")
    tokens.skip_to("}", "'}' after the properties of the network")
    later = []
    while tokens.next < len(tokens.words):
        kind = tokens.take("a block").lower()
        if kind == "variable":
            _block(tokens, draft, _variable)
        elif kind == "probability":  # of variables that may follow
            later.append(tokens.next)
            tokens.skip_to("}", "'}' after a block of probabilities")
        else:
            tokens.refuse(f"a block should begin with variable or probability, not {kind[:40]!r}")
    for tokens.next in later:
        _block(tokens, draft, _probability)
    try:
        return draft.end()
    except ValueError as error:
        raise InputError(f"{path}: {error}.") from error


def _block(tokens: _Tokens, draft: Draft, read: Callable[[_Tokens, Draft], None]) -> None:
    """One block, its keyword taken; whatever is wrong is said with a line."""
    start = tokens.next - 1
    try:
        read(tokens, draft)
    except WrongWordError as error:
        tokens.refuse(str(error), error.place)
    except InputError:
        raise
    except ValueError as error:
        tokens.refuse(str(error), start)


def _variable(tokens: _Tokens, draft: Draft) -> None:
    name = tokens.name("the name of a variable")
    states: list[str] | None = None
    tokens.expect("{", "'{'")
    while (word := tokens.take(f"'}}' after the variable {short(name)}")) != "}":
        if word.lower() == "property":
            tokens.skip_to(";", "';' after a property")
            continue
        if word.lower() != "type" or states is not None:
            tokens.refuse(f"the type of {short(name)}, once, or a property should be here, not {word[:40]!r}")
        tokens.expect("discrete", "the word discrete: variables of other types cannot be read, and it")
        tokens.expect("[", "'['")
        count = tokens.take("the number of states")
        if not (count.isascii() and count.isdigit()):
            tokens.refuse(f"the number of states should be a whole number, not {count[:40]!r}")
        tokens.expect("]", "']'")
        tokens.expect("{", "'{'")
        states = tokens.names("}", f"a state of {short(name)}")
        if len(count) > MAX_DIGITS or int(count) != len(states):
            tokens.refuse(f"the variable {short(name)} is said to have {count[:40]} states, but {len(states)} are named")
        tokens.expect(";", "';'")
    if states is None:
        tokens.refuse(f"the variable {short(name)} has no type")
    draft.add_variable(name, states)


def _probability(tokens: _Tokens, draft: Draft) -> None:
    tokens.expect("(", "'('")
    child, *parents = tokens.names(")", "a variable") or [""]
    scope = draft.scope(child, parents)
    shape, what = draft.shape(scope), f"the probabilities of {short(child)}"
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


def _state(tokens: _Tokens, draft: Draft, variable: str) -> int:
    name, known = tokens.name(f"a state of {short(variable)}"), draft.network.variables[variable]
    if name not in known:
        tokens.refuse(f"the variable {short(variable)} has no state {short(name)}")
    return known.index(name)


def _numbers(tokens: _Tokens, count: int, what: str) -> Floats:
    """So many numbers, and the semicolon after them."""
    start = tokens.next
    while (word := tokens.take(f"';' after {what}")) != ";":
        if word == "}":
            tokens.refuse(f"';' after {what} should be here, not '}}'")
    words = tokens.words[start : tokens.next - 1]
    if len(words) != count:
        tokens.refuse(f"{what} should be {count} numbers here, but there are {len(words)}", start)
    try:
        return probabilities(words, what)
    except WrongWordError as error:
        error.place += start
        raise
