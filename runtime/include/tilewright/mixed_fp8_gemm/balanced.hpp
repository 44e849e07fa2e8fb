// The header of generated `mixed_fp8_gemm` kernels whose thread blocks have equal work
// (mixed_gemm/balanced_phases.hpp): the kernel, and its adapter to `tilewright_kernel`.
#pragma once

#include "tilewright/mixed_fp8_gemm/mixed_fp8_gemm.hpp"
#include "tilewright/mixed_gemm/balanced_maker.hpp"
#include "tilewright/mixed_gemm/balanced_phases.hpp"

namespace tilewright::mixed_fp8_gemm {

// Named barriers 6 and 7 pass the turn between warpgroups (in_turn.hpp).
template <class Types>
using BalancedPhases = mixed_gemm::BalancedPhasesBase<Types, 8, true>;

// The kernel of a schedule, PartsInTurn or QuickFast, with equal work.
template <class Types, class Schedule>
struct BalancedKernel : BalancedPhases<Types> {
  using Base = BalancedPhases<Types>;
  using typename Base::Layout;
  using typename Base::Params;
  static constexpr bool kFast = detail::kIsRelative<Params>;
  static constexpr int kSharedBytes = Layout::kBytes + (kFast ? 16 : 0);

  __device__ __forceinline__ void operator()(Params const& params, char* memory) const {
    sm90::run_product<BalancedKernel>(params, memory);
  }

  static __device__ __forceinline__ void init_barriers(Params const& params, uint32_t shared) {
    Base::init_barriers(params, shared);
    if constexpr (kFast) {
      sm90::store_word(shared + Layout::kBytes, params.largest_scale);
    }
  }

  // A warp that neither loads nor exchanges flags brings the factors of D's rows to the L1 cache.
  static __device__ __forceinline__ void load(Params const& params, uint32_t shared, sm90::ClusterPlace const& place,
                                              bool loading_warp) {
    Base::load(params, shared, place, loading_warp);
    if (threadIdx.x / 32 % 4 != 2 || params.row_factors == nullptr) {
      return;
    }
    typename Base::Range const range(params);
    for (int end = range.end; end > range.begin;) {
      typename Base::Segment const segment(params, range.begin, end, place.m);
      params.bring(segment.column + static_cast<int>(threadIdx.x) % 32 * 8, params.epilogue.m, shared);
      end = Base::next_end(params, range, end, segment.stages);
    }
  }
};

template <class Schedule>
struct Balanced : Schedule {
  using Params = mixed_gemm::WholeTilesParams<typename detail::ParamsOf<Schedule>::Type>;
  template <class Types>
  using Kernel = BalancedKernel<Types, Schedule>;
};

template <class Traits>
using BalancedHost = sm90::ClusteredHost<Traits, mixed_gemm::BalancedMakerBase<Traits, Maker<Traits>>>;

}  // namespace tilewright::mixed_fp8_gemm

// The first declaration says `__cluster_dims__`: see TILEWRIGHT_LEAN_GEMM_KERNEL.
#define TILEWRIGHT_BALANCED_MIXED_FP8_GEMM_KERNEL(NAME)                                      \
  extern "C" __global__ void __cluster_dims__()                                              \
      NAME(__grid_constant__ typename tilewright::NAME::Mixed::Kernel::Params const params); \
  TILEWRIGHT_KERNEL(NAME, tilewright::NAME::Mixed, tilewright::mixed_fp8_gemm::BalancedHost, 1, 1024)
