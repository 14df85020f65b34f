"""Directed networks in XMLBIF (version 0.3).

Only elements and text are read: a file that declares or uses entities is refused, and nothing outside the file is looked at.
What is wrong is said with its line.
"""

import math
import os
import re
from bisect import bisect_right
from pathlib import Path
from typing import Any, NoReturn
from xml.parsers import expat

from qtcore.errors import InputError
from qtcore.models.networks import Draft, Network, WrongWordError, probabilities, short

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
        self.path, self.draft = path, Draft()
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
            elif element.name == "NETWORK":
                for definition in element.children.get("DEFINITION", ()):  # of variables that may stand below
                    element = definition
                    self.define(definition)
            elif element.name != "PROPERTY":
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
        shape, words, what = self.draft.shape(scope), table.text.split(), f"the probabilities of {short(child)}"
        if len(words) != math.prod(shape):
            self.refuse(f"{what} should be {math.prod(shape)} numbers, but there are {len(words)}", table.line)
        try:
            numbers = probabilities(words, what)
        except WrongWordError as error:
            self.refuse(str(error), table.line_of_word(error.place))
        self.draft.add_table(scope, numbers.reshape(shape))


def read(path: "str | os.PathLike[str]") -> Network:
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
