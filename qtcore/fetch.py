"""Fetch the datasets, list what is on this machine, check that it is right.

    python -m qtcore.fetch --list            what is here, where, how large, exact or not
    python -m qtcore.fetch adult frey        fetch what is missing of these two
    python -m qtcore.fetch all               fetch all that is missing
    python -m qtcore.fetch --verify          check all that is here; nothing is fetched

QTCORE_DATA names a folder with data already prepared, QTCORE_CACHE moves the folder for downloads, QTCORE_MIRROR
replaces the public addresses. Exit codes: 0 all right, 1 something is wrong or could not be fetched, 2 bad input.
"""

import argparse
import logging

from qtcore.data import names, originals
from qtcore.data.inventory import Report, holding, verify
from qtcore.errors import DataError, UnknownNameError, nearest
from qtcore.paper.baselines import CHECKS
from qtcore.support.cli import guarded


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m qtcore.fetch", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(names())}, or all (default: list all)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--list", action="store_true", help="list and fetch nothing")
    what.add_argument("--verify", action="store_true", help="check what is here and fetch nothing")
    arguments = parser.parse_args()
    chosen = _chosen(arguments.names)
    if arguments.verify:
        return _verify(chosen)
    if arguments.list or not arguments.names:
        return _list(chosen)
    return _fetch(chosen)


def _chosen(wanted: list[str]) -> list[str]:
    for name in wanted:
        if name not in (*names(), "all"):
            raise UnknownNameError(f"no dataset is called {name!r}; {nearest(name, [*names(), 'all'])}")
    return [name for name in names() if not wanted or "all" in wanted or name in wanted]


def _list(chosen: list[str]) -> int:
    print(f"{'name':<14}{'source':<12}{'size':>9}  where")
    for name in chosen:
        held = holding(name)
        size = f"{held.size / 1e6:.1f} MB" if held.size else ""
        where = held.where or held.advice
        if held.damaged:
            where += f" (damaged: {', '.join(str(path) for path in held.damaged)})"
        print(f"{name:<14}{held.source or 'missing':<12}{size:>9}  {where}")
    return 0


def _fetch(chosen: list[str]) -> int:
    failed = 0
    for name in chosen:
        held = holding(name)
        try:
            for file in held.missing:
                originals.read(file)  # a file that two sets share may have come with the first one
        except DataError as error:
            failed += 1
            print(f"{name:<14}not fetched: {error}")
            continue
        held = holding(name)
        print(f"{name:<14}{held.source}, {held.where}")
    return 1 if failed else 0


def _verify(chosen: list[str]) -> int:
    print(f"{'name':<14}{'result':<10}{'source':<12}{'train/valid/test × variables':<32}{'density':<9}checked")
    counts: dict[str, int] = {}
    log = logging.getLogger(originals.__name__)
    before = log.level
    log.setLevel(logging.ERROR)  # the table says what is damaged
    try:
        for name in chosen:
            report = verify(name, CHECKS.get(name, ()))
            print(_line(report), flush=True)
            counts[report.result] = counts.get(report.result, 0) + 1
    finally:
        log.setLevel(before)
    print(", ".join(f"{count} {result}" for result, count in counts.items()))
    return 1 if "WRONG" in counts else 0


def _line(report: Report) -> str:
    remarks = "; ".join(report.remarks)
    if report.result == "missing":
        return f"{report.name:<14}{report.result:<10}{remarks}"
    density = "" if report.density is None else f"{report.density:.4f}"
    return f"{report.name:<14}{report.result:<10}{report.source:<12}{report.rows:<32}{density:<9}{remarks}"


if __name__ == "__main__":
    guarded(main)
