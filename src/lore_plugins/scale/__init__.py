"""For many recordings: files in buckets and on web servers, a Dask cluster, Parquet tables.

These functions are entry points; they import their modules when they are called.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lore.recording import RemoteFiles
    from lore.run import Cluster, TablesWriter


def remote_files(scheme: str) -> RemoteFiles:
    """Return the files of a URL scheme (entry-point group `lore.remotes`)."""
    from lore_plugins.scale import remote  # noqa: PLC0415 - imported when it is needed

    return remote.SchemeFiles(scheme)


def dask_cluster(address: str, workers: int, warn: Callable[[str], None]) -> Cluster:
    """Return the Dask cluster at an address (entry-point group `lore.clusters`)."""
    from lore_plugins.scale.cluster import DaskCluster  # noqa: PLC0415 - as above

    return DaskCluster(address, workers, warn)


def parquet_tables(folder: str) -> AbstractContextManager[TablesWriter]:
    """Open Parquet tables in a folder (entry-point group `lore.tables`)."""
    from lore_plugins.scale.tables import parquet  # noqa: PLC0415 - as above

    return parquet(folder)
