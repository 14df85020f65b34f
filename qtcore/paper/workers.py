"""Long computations on Dask workers, each result taken as soon as it is there."""

import sys
from collections.abc import Callable, Mapping
from typing import Any

from tqdm import tqdm

from qtcore.errors import InputError


def on_workers(
    function: Callable[..., Any],
    jobs: Mapping[str, tuple[Any, ...]],
    finished: Callable[[str, Any], None],
    title: str,
    scheduler: str | None = None,
    workers: int | None = None,
) -> dict[str, BaseException]:
    """Call the function with the arguments of each job, by name; `finished` gets each result. Returns what went wrong.

    By default on all cores of this machine; with one worker, in this process.
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
    from distributed import Client, LocalCluster, as_completed

    cluster = None
    if scheduler is None:
        cluster = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0")
        client = Client(cluster)
    else:
        try:
            client = Client(scheduler)
        except (OSError, ValueError) as error:
            sentence = f"no Dask scheduler answers at {scheduler}; start one there with `dask scheduler`."
            raise InputError(sentence) from error
    try:
        futures = {client.submit(function, *arguments, key=key, pure=False): key for key, arguments in jobs.items()}
        for future in as_completed(futures):
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
