"""Long computations on Dask workers, each result taken as soon as it is there."""

import logging
import sys
from collections.abc import Callable, Mapping
from typing import Any

from tqdm import tqdm

from qtcore.errors import InputError
from qtcore.support.extras import required


def said(line: str) -> None:
    """A line of progress; on a terminal there is a bar instead."""
    if not sys.stderr.isatty():
        print(line, file=sys.stderr, flush=True)


def on_workers(
    function: Callable[..., Any],
    jobs: Mapping[str, tuple[Any, ...]],
    finished: Callable[[str, Any], None],
    title: str,
    extra: str,
    scheduler: str | None = None,
    workers: int | None = None,
) -> dict[str, BaseException]:
    """Call the function with the arguments of each job, by name; `finished` gets each result. Returns what went wrong.

    By default on all cores of this machine; with one worker, in this process. `extra` is what brings Dask.
    """
    bar = tqdm(total=len(jobs), desc=title, disable=not sys.stderr.isatty())
    problems: dict[str, BaseException] = {}
    if workers == 1 and scheduler is None:
        for key, arguments in jobs.items():
            try:
                finished(key, function(*arguments))
            except Exception as error:  # one job must not cost the others
                problems[key] = error
            bar.update()
        bar.close()
        return problems
    dask = required("distributed", extra)
    cluster = None
    if scheduler is None:
        quiet = {"silence_logs": logging.CRITICAL}  # what goes wrong with a job is said by whoever asked for it
        cluster = dask.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0", **quiet)
        client = dask.Client(cluster)
    else:
        try:
            client = dask.Client(scheduler)
        except (OSError, ValueError) as error:
            sentence = f"no Dask scheduler answers at {scheduler}; start one there with `dask scheduler`."
            raise InputError(sentence) from error
    try:
        futures = {client.submit(function, *arguments, key=key, pure=False): key for key, arguments in jobs.items()}
        for future in dask.as_completed(futures):
            key = futures[future]
            if future.status == "finished":
                finished(key, future.result())
            else:
                problems[key] = future.exception()
            future.release()
            bar.update()
        bar.close()
    finally:
        client.close()
        if cluster is not None:
            cluster.close()
    return problems
