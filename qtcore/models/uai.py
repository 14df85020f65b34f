"""Files of the UAI competitions: graphs (.uai), evidence (.evid), marginals (MAR) and partition functions (PR).

All are words between white space. Every count is checked against the words that are left before anything is made of that
size, and what is wrong is said with its line.
"""

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from qtcore.errors import InputError
from qtcore.support.files import write_atomically

Floats = npt.NDArray[np.float64]

KINDS = ("MARKOV", "BAYES")

MAX_DIGITS = 12
"""Longer whole numbers count nothing that fits into a memory."""


MAX_ORDER = 32
"""Variables of a factor with a table: with more, its table could be held only if most of them had a single state."""


class Graph(NamedTuple):
    """A graph as it is in a file: potentials, not logs."""

    n_states: tuple[int, ...]
    scopes: list[tuple[int, ...]]
    tables: list[Floats]


def text_of(path: "str | os.PathLike[str]") -> str:
    """The text in a file; raise an InputError if there is none."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as text ({error}).") from error


class Words:
    """The words of a file, taken one after the other; of a given text, if it is not in a file of this machine."""

    def __init__(self, path: "str | os.PathLike[str]", text: str | None = None) -> None:
        self.path, self.text = Path(path), text_of(path) if text is None else text
        self.words = self.text.split()
        self.next = 0

    @property
    def left(self) -> int:
        return len(self.words) - self.next

    def refuse(self, what: str, back: int = 1) -> NoReturn:
        """Raise an InputError about the word that was taken `back` words ago."""
        place = max(0, min(self.next - back, len(self.words) - 1))
        seen = 0
        for number, line in enumerate(self.text.splitlines(), 1):
            seen += len(line.split())
            if seen > place:
                raise InputError(f"{self.path}, line {number}: {what}.")
        raise InputError(f"{self.path}: {what}.")

    def take(self, what: str) -> str:
        if not self.left:
            self.refuse(f"the file ends where {what} should be")
        self.next += 1
        return self.words[self.next - 1]

    def whole(self, what: str, least: int = 0) -> int:
        """A whole number."""
        word = self.take(what)
        if not (word.isascii() and word.isdigit()):
            self.refuse(f"{what} should be a whole number, not {word[:40]!r}")
        if len(word) > MAX_DIGITS or int(word) < least:
            self.refuse(f"{what} is {word[:40]}" + (f", but should be {least} or more" if len(word) <= MAX_DIGITS else ""))
        return int(word)

    def named(self, what: str, names: Sequence[str]) -> int:
        """One of these names, as its number; or a whole number."""
        word = self.words[self.next] if self.left else ""
        if word in names:
            self.next += 1
            return names.index(word)
        if names and word and not word.isdigit():
            self.next += 1
            self.refuse(f"{what} should be one of the names or a whole number, not {word[:40]!r}")
        return self.whole(what)

    def count(self, what: str, each: int = 1, least: int = 0) -> int:
        """How many things follow, of at least so many words each; no more than there are words left."""
        number = self.whole(what, least)
        if number * each > self.left:
            self.refuse(f"{what} is {number}, but only {self.left} words are left in the file")
        return number

    def numbers(self, count: int, what: str) -> Floats:
        """So many numbers ≥ 0, none of them NaN or infinite."""
        if count > self.left:
            self.refuse(f"{what} needs {count} numbers, but only {self.left} words are left in the file")
        words = self.words[self.next : self.next + count]
        self.next += count
        try:
            numbers = np.array(words, dtype=np.float64)
        except ValueError:
            bad = next(k for k, word in enumerate(words) if not is_number(word))
            self.refuse(f"{what} should be numbers, but there is {words[bad][:40]!r}", count - bad)
        wrong = ~(np.isfinite(numbers) & (numbers >= 0))
        if wrong.any():
            bad = int(wrong.argmax())
            self.refuse(f"{what} should be finite and not negative, but there is {words[bad][:40]}", count - bad)
        return numbers

    def end(self, what: str) -> None:
        if self.left:
            self.next += 1
            self.refuse(f"there is more text after {what}: {self.words[self.next - 1][:40]!r}")


def is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def read(path: "str | os.PathLike[str]", text: str | None = None) -> Graph:
    """The graph in a .uai file, or in a text of that name; raise an InputError, with the line, for anything that is wrong."""
    words = Words(path, text)
    kind = words.take("MARKOV or BAYES")
    if kind.upper() not in KINDS:
        words.refuse(f"the file should begin with MARKOV or BAYES, not {kind[:40]!r}")
    count = words.count("the number of variables", least=1)
    n_states = tuple(words.whole(f"the number of states of variable {i}", least=1) for i in range(count))
    n_factors = words.count("the number of factors")
    scopes = [_scope(words, f, count) for f in range(n_factors)]
    tables = [_table(words, f, tuple(n_states[i] for i in scope)) for f, scope in enumerate(scopes)]
    words.end("the last table")
    return Graph(n_states, scopes, tables)


def _scope(words: Words, factor: int, count: int) -> tuple[int, ...]:
    order = words.count(f"the number of variables of factor {factor}")
    if order > MAX_ORDER:
        words.refuse(f"factor {factor} has {order} variables, but {MAX_ORDER} are the most")
    scope = []
    for _ in range(order):
        variable = words.whole(f"a variable of factor {factor}")
        if variable >= count:
            words.refuse(f"factor {factor} names the variable {variable}, but there are the variables 0 … {count - 1}")
        if variable in scope:
            words.refuse(f"factor {factor} names the variable {variable} twice")
        scope.append(variable)
    return tuple(scope)


def _table(words: Words, factor: int, shape: tuple[int, ...]) -> Floats:
    size, entries = math.prod(shape), words.whole(f"the number of entries of factor {factor}")
    if entries != size:
        words.refuse(f"factor {factor} has {entries} entries, but its variables have {size} states together")
    table = words.numbers(size, f"the table of factor {factor}")
    if not table.any():
        words.refuse(f"the table of factor {factor} is all zeros, so that no state is possible")
    return table.reshape(shape)


def write(
    path: "str | os.PathLike[str]", n_states: Sequence[int], scopes: Sequence[Sequence[int]], tables: Sequence[Floats]
) -> None:
    """Write a graph with these tables of log-potentials as a .uai file."""
    write_atomically(path, written(n_states, scopes, tables))


def written(n_states: Sequence[int], scopes: Sequence[Sequence[int]], tables: Sequence[Floats]) -> str:
    """The text of such a file."""
    lines = ["MARKOV", str(len(n_states)), " ".join(map(str, n_states)), str(len(scopes))]
    lines += [" ".join(map(str, (len(scope), *scope))) for scope in scopes]
    for number, table in enumerate(tables):
        with np.errstate(over="ignore", under="ignore"):
            potentials = np.exp(table)
        if not np.isfinite(potentials).all() or ((potentials == 0) & np.isfinite(table)).any():
            raise InputError(f"the potentials of factor {number} are too large or too small to be written as numbers.")
        lines += ["", str(table.size), " ".join(map(repr, potentials.ravel().tolist()))]
    return "\n".join(lines) + "\n"


def read_evidence(
    path: "str | os.PathLike[str]",
    n_states: Sequence[int],
    names: Sequence[str] = (),
    state_names: Sequence[Sequence[str] | None] = (),
) -> dict[int, int]:
    """The observed variables of a .evid file and their states, by numbers or, where there are any, by names (a word that is
    both is a name). Some files begin with a number of samples: it must be 1."""
    words = Words(path)
    if not words.left:
        return {}
    if words.left > 1 and words.words[0] == "1" and words.left % 2 == 0:
        words.take("the number of samples")
    elif words.left % 2 == 0:
        words.take("the number of samples")
        words.refuse("there are several samples of evidence, or a word too many; give one sample: a count, then pairs")
    known: dict[int, int] = {}
    for _ in range(words.count("the number of observed variables", each=2)):
        variable = words.named("an observed variable", names)
        if variable >= len(n_states):
            words.refuse(f"the variable {variable} is observed, but there are the variables 0 … {len(n_states) - 1}")
        labels = state_names[variable] if state_names else None
        state = words.named(f"the state of variable {names[variable] if names else variable}", labels or ())
        if state >= n_states[variable]:
            words.refuse(f"the variable {variable} is observed in state {state}, but has only {n_states[variable]} states")
        if known.setdefault(variable, state) != state:
            words.refuse(f"the variable {variable} is observed in two states, {known[variable]} and {state}")
    words.end("the last observed variable")
    return known


def write_evidence(path: "str | os.PathLike[str]", known: dict[int, int]) -> None:
    pairs = [f"{variable} {state}" for variable, state in known.items()]
    write_atomically(path, " ".join([str(len(known)), *pairs]) + "\n")


def read_marginals(path: "str | os.PathLike[str]", n_states: Sequence[int]) -> list[Floats]:
    """The marginals of all variables in a MAR file."""
    words = Words(path)
    if (kind := words.take("MAR")).upper() != "MAR":
        words.refuse(f"the file should begin with MAR, not {kind[:40]!r}")
    expected = len(n_states) + sum(n_states)
    if words.left == expected + 2 and words.words[words.next] == "1":
        words.take("the number of samples")
    count = words.count("the number of variables")
    if count != len(n_states):
        words.refuse(f"there are marginals of {count} variables, but the graph has {len(n_states)}")
    result = []
    for variable, size in enumerate(n_states):
        given = words.whole(f"the number of states of variable {variable}")
        if given != size:
            words.refuse(f"the variable {variable} has {given} states here, but {size} in the graph")
        result.append(words.numbers(size, f"the marginal of variable {variable}"))
    words.end("the last marginal")
    return result


def write_marginals(path: "str | os.PathLike[str]", marginals: Sequence[Any]) -> None:
    parts = [f"{len(marginal)} {' '.join(map(repr, map(float, marginal)))}" for marginal in marginals]
    write_atomically(path, "MAR\n" + " ".join([str(len(marginals)), *parts]) + "\n")


def read_partition(path: "str | os.PathLike[str]") -> float:
    """log Z (natural) from a PR file, which has log₁₀ Z."""
    words = Words(path)
    if (kind := words.take("PR")).upper() != "PR":
        words.refuse(f"the file should begin with PR, not {kind[:40]!r}")
    word = words.take("log10 of Z")
    if not is_number(word) or math.isnan(float(word)):
        words.refuse(f"log10 of Z should be a number, not {word[:40]!r}")
    words.end("log10 of Z")
    return float(word) * math.log(10)


def write_partition(path: "str | os.PathLike[str]", log_z: float) -> None:
    write_atomically(path, f"PR\n{log_z / math.log(10)!r}\n")
