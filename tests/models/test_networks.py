"""Directed networks in BIF and XMLBIF: read as written, and one sentence with its line for whatever is wrong."""

import itertools
import math
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import qtcore
from qtcore import FactorGraph
from qtcore.errors import InputError
from qtcore.models import networks

from ..strategies import F64, close

BIF = """// a lawn
network "The lawn" { property author nobody; }
variable rain {
  type discrete [ 2 ] { no, yes };
  property position = (73, 165) ;
}
variable sprinkler { type discrete[3] { "off" "very low" high }; }
variable wet {
  type discrete [ 2 ] { dry, wet };
}
probability ( rain ) {
  table 0.75, 0.25;
}
/* on less often
   when it rains */
probability ( sprinkler | rain ) { (no) 0.3, 0.2 0.5; (yes) 0.9, 0.1, 0.0; }
probability ( wet | rain, sprinkler ) {
  default 0.1, 0.9;
  (no, "off") 1, 0;
  (no, high) 0.05, 0.95;
  (yes, "off") 2e-1, 8e-1;
}
"""

RAIN = [0.75, 0.25]
SPRINKLER = [[0.3, 0.2, 0.5], [0.9, 0.1, 0.0]]
WET = [[[1, 0], [0.1, 0.9], [0.05, 0.95]], [[0.2, 0.8], [0.1, 0.9], [0.1, 0.9]]]

XMLBIF = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE BIF [
  <!ELEMENT BIF ( NETWORK )*>
  <!ATTLIST BIF VERSION CDATA #REQUIRED>
  <!ELEMENT NETWORK ( NAME, ( PROPERTY | VARIABLE | DEFINITION )* )>
]>
<BIF VERSION="0.3">
<NETWORK>
<NAME>The lawn &amp; the weather</NAME>
<VARIABLE TYPE="nature"><NAME>rain</NAME><OUTCOME>no</OUTCOME><OUTCOME>yes</OUTCOME></VARIABLE>
<VARIABLE TYPE="nature">
  <NAME>sprinkler</NAME><OUTCOME>off</OUTCOME><OUTCOME>very low</OUTCOME><OUTCOME>high</OUTCOME>
  <PROPERTY>position = (73, 165)</PROPERTY>
</VARIABLE>
<VARIABLE><NAME>wet</NAME><OUTCOME>dry</OUTCOME><OUTCOME>wet</OUTCOME></VARIABLE>
<DEFINITION><FOR>rain</FOR><TABLE>0.75 0.25</TABLE></DEFINITION>
<DEFINITION>
  <FOR>sprinkler</FOR><GIVEN>rain</GIVEN>
  <TABLE>0.3 0.2 0.5 <!-- no -->
    0.9 0.1 0.0</TABLE>
</DEFINITION>
<DEFINITION>
  <FOR>wet</FOR>
  <GIVEN>rain</GIVEN>
  <GIVEN>sprinkler</GIVEN>
  <TABLE>1 0 0.1 0.9 0.05 0.95
    0.2 0.8 0.1 0.9 0.1 0.9</TABLE>
</DEFINITION>
</NETWORK>
</BIF>
"""

READERS: dict[str, tuple[str, Callable[..., FactorGraph]]] = {
    "bif": (BIF, FactorGraph.from_bif),
    "xml": (XMLBIF, FactorGraph.from_xmlbif),
}


def joint() -> torch.Tensor:
    result = torch.zeros(2, 3, 2, dtype=F64)
    for r, s, w in itertools.product(range(2), range(3), range(2)):
        result[r, s, w] = RAIN[r] * SPRINKLER[r][s] * WET[r][s][w]
    return result


@pytest.mark.parametrize("kind", READERS)
def test_a_network_is_the_product_of_its_probabilities(tmp_path: Path, kind: str) -> None:
    text, read = READERS[kind]
    (tmp_path / "lawn").write_text(text)
    model = read(tmp_path / "lawn")
    assert model.names == ("rain", "sprinkler", "wet")
    assert model.state_names == (("no", "yes"), ("off", "very low", "high"), ("dry", "wet"))
    assert [scope for _, scopes in model.factors() for scope in scopes] == [[0], [0, 1], [0, 1, 2]]
    close(qtcore.exact.log_z(model), torch.zeros((), dtype=F64), 1e-12)
    given_wet = joint()[:, :, 1] / joint()[:, :, 1].sum()
    probs = model(model.query({"wet": "wet"}), engine=qtcore.Exact()).probs[0]
    close(probs[0, :2], given_wet.sum(1))
    close(probs[1], given_wet.sum(0))


def test_both_formats_and_from_file(tmp_path: Path) -> None:
    for kind, (text, read) in READERS.items():
        (tmp_path / f"lawn.{kind}").write_text(text)
        one, other = read(tmp_path / f"lawn.{kind}"), FactorGraph.from_file(tmp_path / f"lawn.{kind}", fixed=True)
        assert one.factors() == other.factors()
        assert not any(table.requires_grad for _, table in other.tables.items())
    bif, xml = networks.read_bif(tmp_path / "lawn.bif"), networks.read_xmlbif(tmp_path / "lawn.xml")
    assert bif.variables == xml.variables
    for first, second in zip(bif.tables, xml.tables, strict=True):
        assert first.tolist() == second.tolist()


def test_a_table_of_bif_runs_over_the_variable_first(tmp_path: Path) -> None:
    """As the interchange format has it: the variable itself is first in the list, and the last one runs fastest."""
    table = [str(WET[r][s][w]) for w in range(2) for r in range(2) for s in range(3)]
    start = BIF[: BIF.index("probability ( wet")]
    (tmp_path / "lawn.bif").write_text(f'{start}probability ("wet" "rain" sprinkler) {{ table {" ".join(table)}; }}')
    assert networks.read_bif(tmp_path / "lawn.bif").tables[2].tolist() == WET


def test_rounded_probabilities_are_divided_by_their_sum(tmp_path: Path) -> None:
    (tmp_path / "lawn.bif").write_text(BIF.replace("0.75, 0.25", "0.333, 0.666"))
    assert networks.read_bif(tmp_path / "lawn.bif").tables[0].tolist() == pytest.approx([1 / 3, 2 / 3], abs=1e-12)


WRONG: list[tuple[str, str, str, str]] = [  # the file, what is replaced in it, by what, and what is said
    ("bif", "network", "netwrok", "line 2: the word network should be here, not 'netwrok'"),
    ("bif", BIF, "", "line 1: the file ends where the word network should be"),
    ("bif", BIF, "network x { variable", "line 1: the file ends where '}' after the properties of the network should be"),
    ("bif", "variable wet", "some text\nvariable wet", "line 8: a block should begin with variable or probability, not 'some'"),
    (
        "bif",
        "[ 2 ] { no",
        "[ 1000000000 ] { no",
        "line 4: the variable 'rain' is said to have 1000000000 states, but 2 are named",
    ),
    ("bif", "[ 2 ] { no", "[ two ] { no", "line 4: the number of states should be a whole number, not 'two'"),
    ("bif", "[ 2 ] { no", f"[ {'9' * 5000} ] {{ no", "line 4: the variable 'rain' is said to have 9999"),
    ("bif", "discrete [ 2 ] { no", "continuous [ 2 ] { no", "line 4: the word discrete: variables of other types"),
    ("bif", "{ no, yes }", "{ no, no }", "line 3: the variable 'rain' has the state 'no' twice"),
    ("bif", "[ 2 ] { no, yes }", "[0] { }", "line 3: the variable 'rain' needs a name, and at least one state"),
    ("bif", "variable sprinkler", "variable rain", "line 7: the variable 'rain' is declared twice"),
    ("bif", "type discrete [ 2 ] { dry, wet };", "", "line 10: the variable 'wet' has no type"),
    ("bif", "{ dry, wet };", "{ dry, wet", "line 11: ';' should be here, not 'probability'"),
    (
        "bif",
        "( wet | rain,",
        "( wet | fog,",
        "line 17: the probabilities of 'wet' name 'fog', but no such variable is declared",
    ),
    ("bif", "( wet | rain,", "( wet | sprinkler,", "line 17: the probabilities of 'wet' name 'sprinkler' twice"),
    ("bif", "( wet | rain, sprinkler )", "( )", "line 17: the probabilities of '' name '', but no such variable is declared"),
    ("bif", "( sprinkler | rain )", "( rain )", "line 16: the probabilities of 'rain' are given twice"),
    ("bif", "0.75, 0.25", "0.75, 0.15, 0.1", "line 12: the probabilities of 'rain' should be 2 numbers here, but there are 3"),
    ("bif", "0.75, 0.25", "0.75, 0.35", "line 11: the probabilities of 'rain' add up to 1.1, not to 1"),
    ("bif", "0.05, 0.95", "0.5, 0.95", "line 17: .*'wet' given rain = no, sprinkler = high add up to 1.45, not to 1"),
    (
        "bif",
        "0.05, 0.95",
        "nan, 0.95",
        "line 20: the probabilities of 'wet' should be finite and not negative, but there is nan",
    ),
    ("bif", "0.05, 0.95", "-0.05, 1.05", "line 20: .* but there is -0.05"),
    ("bif", "0.05, 0.95", "0.05, rest", "line 20: the probabilities of 'wet' should be numbers, but there is 'rest'"),
    ("bif", "(no, high)", "(no, low)", "line 20: the variable 'sprinkler' has no state 'low'"),
    ("bif", "(no, high)", "(no)", "line 20: a state of 'sprinkler' should be here, not '\\)'"),
    ("bif", "(no, high)", "(no, high, no)", "line 20: '\\)' after 2 states should be here, not 'no'"),
    ("bif", "(no, high)", '(no, "off")', "line 20: the probabilities of 'wet' are given twice for the same states"),
    ("bif", "default 0.1, 0.9;", "", "line 17: the probabilities of 'wet' are missing for 3 of 6 combinations"),
    (
        "bif",
        "default 0.1, 0.9;",
        "table 0.1, 0.9;",
        "line 18: the probabilities of 'wet' should be 12 numbers here, but there are 2",
    ),
    ("bif", "8e-1;\n}", "8e-1;", "line 21: the file ends where '}' after the probabilities of 'wet' should be"),
    ("bif", "8e-1;\n}", "8e-1", "line 21: the file ends where ';' after the probabilities of 'wet' should be"),
    ("bif", "probability ( rain ) {\n  table 0.75, 0.25;\n}", "", ": there are no probabilities of the variable 'rain'"),
    (
        "bif",
        "( rain ) {\n  table 0.75, 0.25;",
        "( rain | wet ) { default 0.5 0.5;",
        ": the variable 'rain' is among its own ancestors",
    ),
    ("xml", XMLBIF, "", "line 1: this is no XML \\(no element found\\)"),
    ("xml", "</BIF>", "</BIG>", "line 30: this is no XML \\(mismatched tag\\)"),
    ("xml", "]>", '<!ENTITY x "yy">]>', "line 6: the file declares or uses entities"),
    ("xml", "]>", '<!ENTITY x SYSTEM "file:///etc/passwd">]>', "line 6: the file declares or uses entities"),
    ("xml", "<!DOCTYPE BIF [", '<!DOCTYPE BIF SYSTEM "bif.dtd"> <BIF>&x;', "line 2: the file declares or uses entities"),
    ("xml", "<NAME>rain", "<NAME>&rain;", "this is no XML \\(undefined entity\\)|declares or uses entities"),
    ("xml", "<BIF V", "<NET V", "line 7: there is an element <NET> as the outermost element, which is <BIF>"),
    ("xml", "<NAME>wet</NAME>", "<NAME>wet</NAME><STATE/>", "line 15: there is an element <STATE> in <VARIABLE>"),
    ("xml", "</NETWORK>", "</NETWORK><NETWORK></NETWORK>", "line 29: there is a second network; a file holds one"),
    ("xml", "<NETWORK>", "<NETWORK>text", "line 8: there is text in <NETWORK>: 'text'"),
    (
        "xml",
        '<VARIABLE TYPE="nature">\n',
        '<VARIABLE TYPE="utility">\n',
        "line 11: variables of the type 'utility' cannot be read",
    ),
    ("xml", "<NAME>wet</NAME>", "", "line 15: a <VARIABLE> should have one <NAME>, but has 0"),
    ("xml", "<NAME>wet</NAME>", "<NAME>rain</NAME>", "line 15: the variable 'rain' is declared twice"),
    (
        "xml",
        "<OUTCOME>dry</OUTCOME><OUTCOME>wet</OUTCOME>",
        "",
        "line 15: the variable 'wet' needs a name, and at least one state",
    ),
    (
        "xml",
        "<FOR>wet</FOR>",
        "<FOR>fog</FOR>",
        "line 22: the probabilities of 'fog' name 'fog', but no such variable is declared",
    ),
    ("xml", "<TABLE>0.75 0.25", "<TABLE>0.75", "line 16: the probabilities of 'rain' should be 2 numbers, but there are 1"),
    ("xml", "0.9 0.1 0.0", "0.9 0.1 nan", "line 20: .* finite and not negative, but there is nan"),
    ("xml", "0.9 0.1 0.0", "0.9 -0.1 0.2", "line 20: .* finite and not negative, but there is -0.1"),
    ("xml", "0.9 0.1 0.0", "0.9 few 0.2", "line 20: the probabilities of 'sprinkler' should be numbers, but there is 'few'"),
    ("xml", "0.9 0.1 0.0", "0.9 0.1 0.9", "line 17: .*'sprinkler' given rain = yes add up to 1.9, not to 1"),
    ("xml", "<TABLE>0.75 0.25</TABLE>", "", "line 16: a <DEFINITION> should have one <TABLE>, but has 0"),
    ("xml", 'encoding="UTF-8"', 'encoding="klingon"', "unknown encoding"),
]


@pytest.mark.parametrize(("kind", "old", "new", "message"), WRONG)
def test_networks_that_are_wrong(tmp_path: Path, kind: str, old: str, new: str, message: str) -> None:
    text, read = READERS[kind]
    assert old in text
    path = tmp_path / f"lawn.{kind}"
    path.write_text(text.replace(old, new, 1))
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=message) as caught:
            read(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**20  # nothing was made of the sizes that a header claims
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_a_default_cannot_ask_for_a_huge_table(tmp_path: Path) -> None:
    names = [f"v{k}" for k in range(40)]
    variables = "".join(f"variable {name} {{ type discrete [2] {{ a b }}; }}\n" for name in names)
    priors = "".join(f"probability ({name}) {{ table 0.5 0.5; }}\n" for name in names[1:])
    for count, message in ((40, "has 39 parents, but 31 are the most"), (30, "would be a table of 1073741824 numbers")):
        last = f"probability ({' '.join(names[:count])}) {{ default 0.5 0.5; }}"
        (tmp_path / "wide.bif").write_text(f"network wide {{}}\n{variables}{priors}{last}")
        with pytest.raises(InputError, match=message):
            FactorGraph.from_bif(tmp_path / "wide.bif")


DAMAGE = ["", "0", "3", "-1", "1e400", "x", "10" * 9, "nan", '"', "{", "}", "<", ">", "&x;", "/*", "٣"]


@given(st.data(), st.sampled_from(sorted(READERS)))
def test_any_damage_is_one_sentence(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, kind: str) -> None:
    """Pieces dropped, doubled or replaced: a network whose probabilities add up to 1, or an InputError, never anything else."""
    text, read = READERS[kind]
    path = tmp_path_factory.mktemp("network") / "network"
    for _ in range(data.draw(st.integers(1, 2))):
        start = data.draw(st.integers(0, max(0, len(text) - 1)))
        end = start + data.draw(st.integers(0, 12))
        new = data.draw(st.sampled_from(DAMAGE))
        text = text[:start] + new + text[end:]
    path.write_text(text, encoding="utf-8")
    model, said = None, f"{path}"
    try:
        model = read(path)
    except InputError as error:
        said = str(error)
    assert said.startswith(str(path))
    assert "\n" not in said
    if model is not None:
        close(qtcore.exact.log_z(model), torch.zeros((), dtype=F64), 1e-9)


def test_files_that_are_none(tmp_path: Path) -> None:
    for _, read in READERS.values():
        with pytest.raises(InputError, match="does not exist"):
            read(tmp_path / "none")
        with pytest.raises(InputError, match="cannot be read"):
            read(tmp_path)
    (tmp_path / "latin.xml").write_bytes(XMLBIF.replace("UTF-8", "ISO-8859-1").replace("very low", "häufig").encode("latin-1"))
    model: Any = FactorGraph.from_xmlbif(tmp_path / "latin.xml")
    assert model.state_names[1] == ("off", "häufig", "high")
    assert math.isclose(float(model.query({"sprinkler": "häufig"}).values.sum()), 1)
