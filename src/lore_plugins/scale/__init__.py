"""For many recordings: files in buckets and on web servers, a Dask cluster, Parquet tables.

The names are entry points (groups `lore.remotes`, `lore.clusters`, `lore.tables`), imported when they are first used.
"""

from typing import TYPE_CHECKING

from lore.exports import public_names

if TYPE_CHECKING:
    from lore_plugins.scale.cluster import DaskCluster as dask_cluster  # noqa: N813 - a function to its caller
    from lore_plugins.scale.remote import SchemeFiles as remote_files  # noqa: N813 - as above
    from lore_plugins.scale.tables import parquet as parquet_tables

__all__ = ["dask_cluster", "parquet_tables", "remote_files"]
__getattr__ = public_names(__name__)
