"""Memory of SGLang's trees without a device, and the trees over it: in the oracle's environment, not in lore's.

Trees and allocators are SGLang's own; lore's are the replacements of tensors on a device: rows of places, and copies of
states.
"""

from types import SimpleNamespace

from plugins.engines.oracle.sglang_settings import Settings


class Rows:
    """`ReqToTokenPool` without a device: a row of places a request."""

    def __init__(self, rows: int, width: int) -> None:
        import torch

        self.req_to_token = torch.zeros((rows, width), dtype=torch.int64)

    def write(self, place, values) -> None:
        self.req_to_token[place] = values

    def free(self, request) -> None:
        request.kv.req_pool_idx = None

    def states(self, request) -> None:
        """Reserve places for a request's states."""


def rows_of(settings: Settings, rows: int, width: int, enough: int):
    """Return rows, with memory for states if the model has them; None: for `enough` of them."""
    if not settings.states:
        return Rows(rows, width)
    import torch
    from sglang.srt.mem_cache.allocator.mamba import MambaSlotAllocator
    from sglang.srt.mem_cache.memory_pool import HybridReqToTokenPool

    class WithStates(Rows, HybridReqToTokenPool):
        """`HybridReqToTokenPool` whose states are nothing but their places."""

        def __init__(self) -> None:
            super().__init__(rows, width)
            self.enable_mamba_extra_buffer = settings.buffered
            self.enable_mamba_extra_buffer_lazy = False
            self.mamba_ping_pong_track_buffer_size = 2
            self.mamba_initial_tracking_slots = 2 if self.enable_mamba_extra_buffer else 0
            self.mamba_allocator = MambaSlotAllocator(settings.state_capacity or enough, "cpu")
            self.mamba_pool = SimpleNamespace(replayssm_write_pos=None, copy_from=lambda source, target: None)
            self.mamba_ckpt_pool = None
            self.req_index_to_mamba_ping_pong_track_buffer_mapping = torch.zeros((rows, 2), dtype=torch.int64)

        def states(self, request) -> None:
            from sglang.srt.mem_cache.allocation import ensure_mamba_capacity

            ensure_mamba_capacity(self, [request], self.tree)
            if not request.kv.holds_mamba:
                request.kv.mamba_pool_idx = self.mamba_allocator.alloc(1)[0]
            if self.enable_mamba_extra_buffer:
                self._alloc_ping_pong_buffer(request)
                mapping = self.req_index_to_mamba_ping_pong_track_buffer_mapping
                mapping[request.kv.req_pool_idx] = request.kv.mamba_ping_pong_track_buffer

    return WithStates()


def allocator_of(settings: Settings, enough: int):
    """Return the allocator of a server's memory; None: of `enough` pages."""
    import torch
    from sglang.srt.mem_cache.allocator.paged import PagedTokenToKVPoolAllocator
    from sglang.srt.mem_cache.allocator.swa import SWATokenToKVPoolAllocator
    from sglang.srt.mem_cache.allocator.token import TokenToKVPoolAllocator
    from sglang.srt.mem_cache.base_swa_memory_pool import BaseSWAKVPool

    class Pool(BaseSWAKVPool):
        def __init__(self) -> None:
            self.full_to_swa_index_mapping = None

        def register_mapping(self, mapping) -> None:
            self.full_to_swa_index_mapping = mapping

        def translate_loc_from_full_to_swa(self, places):
            return self.full_to_swa_index_mapping[places]

        def get_state_buf_infos(self):
            raise NotImplementedError

    Pool.__abstractmethods__ = frozenset()
    page = settings.page_size
    size = (enough if settings.capacity is None else settings.capacity) * page
    if settings.window is not None:
        windows = (enough if settings.window_capacity is None else settings.window_capacity) * page
        allocator = SWATokenToKVPoolAllocator(size, windows, page, torch.int64, "cpu", Pool(), need_sort=False)
        allocators = [allocator.full_attn_allocator, allocator.swa_attn_allocator]
    elif page == 1:
        return TokenToKVPoolAllocator(size, torch.int64, "cpu", None, need_sort=False)
    else:
        allocator = PagedTokenToKVPoolAllocator(size, page, torch.int64, "cpu", None, need_sort=False)
        allocators = [allocator]
    for part in allocators:
        part.use_triton_kernels = False
    return allocator


def tree_of(settings: Settings, enough: int, rows: Rows):
    """Return a tree of SGLang's, over memory of `enough` pages where the settings do not say of how many."""
    from sglang.srt.mem_cache.cache_init_params import CacheInitParams
    from sglang.srt.mem_cache.radix_cache import RadixCache
    from sglang.srt.mem_cache.unified_cache.components import ComponentType
    from sglang.srt.mem_cache.unified_radix_cache import UnifiedRadixCache
    from sglang.srt.mem_cache.utils import get_eviction_strategy

    allocator = allocator_of(settings, enough)
    if settings.tree == "radix":
        tree = RadixCache.create_simulated(mock_allocator=allocator, page_size=settings.page_size)
        tree.req_to_token_pool = rows
        tree.eviction_strategy = get_eviction_strategy(settings.policy)
        return tree
    parts = (ComponentType.FULL,)
    if settings.window is not None:
        parts += (ComponentType.SWA,)
    if settings.states:
        parts += (ComponentType.MAMBA,)
    tree = UnifiedRadixCache(
        CacheInitParams(
            disable=False,
            req_to_token_pool=rows,
            token_to_kv_pool_allocator=allocator,
            page_size=settings.page_size,
            eviction_policy=settings.policy,
            tree_components=parts,
            sliding_window_size=settings.window,
            enable_mamba_extra_buffer=settings.buffered,
        )  # fmt: skip
    )
    rows.tree = tree
    return tree
