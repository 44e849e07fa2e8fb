// The header of generated gated `mixed_gemm` kernels of few rows: the kernel, and its adapter to `tilewright_kernel`.
#pragma once

#include "tilewright/mixed_gemm/gated_args.hpp"
#include "tilewright/mixed_gemm/stream.hpp"

namespace tilewright::mixed_gemm::stream {

// As Kernel, gated.
template <class Type, class Format, class ElementD_, int Slices, int Rows, int Warps, int Stages, bool kPdl_>
struct GatedKernel : Kernel<Type, Format, ElementD_, Slices, Rows, Warps, Stages, kPdl_> {
  using ElementD = ElementD_;
  using Warp = stream::Warp<Type, Format, Slices, Rows, Warps, Stages>;
  using Layout = typename Warp::Layout;
  static constexpr int kThreads = Warps * 32, kOfTile = Layout::kColumns / 2;  // columns of D in a tile
  static constexpr bool kPdl = kPdl_;

  __device__ __forceinline__ void operator()(Params const& params, char* memory) const {
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int const split = blockIdx.x % params.splits, tile = blockIdx.x / params.splits;
    typename Warp::Ring const ring(sm90::shared_address(memory), warp);
    typename Warp::Source const source{tile * Slices, params.slices - 1, 0, 0};
    if (lane == 0) {
      sm90::prefetch_map(&params.a);
    }
    ring.init();
    int const first = params.units * split / params.splits, end = params.units * (split + 1) / params.splits;
    if constexpr (kPdl) {
      sm90::wait_for_previous_kernel();
      sm90::allow_next_kernel();
    }
#pragma unroll 1
    for (int i = 0; i < Stages; ++i) {
      Warp::load(params, ring, i, source, first + warp + i * Warps, end, 0);
    }
    typename Warp::Sums sums = {};
    int stage = 0;
    uint32_t phase = 0;
#pragma unroll 1
    for (int unit = first + warp; unit < end; unit += Warps) {
      sm90::barrier_wait(ring.barriers + stage * 8, phase);
      uint32_t const read = Warp::multiply_unit(ring.activations + stage * Layout::kActivations,
                                                ring.stages + stage * Layout::kStage, sums);
      __syncwarp();  // the other lanes have read the stage, too
      Warp::load(params, ring, stage, source, unit + Stages * Warps, end, sm90::zero_after(read));
      if (++stage == Stages) {
        stage = 0, phase ^= 1;
      }
    }
    Warp::store_sums(memory, sums);
    __syncthreads();
    add_up(params, memory, split, tile);
  }

 private:
  static constexpr int kUp = 8;  // rows of W from gate's to up's

  // Where the sum of gate lies, of element `i` of the tile of D.
  static __device__ __forceinline__ int place_of(int i) {
    int const row = i / kOfTile, column = i % kOfTile;
    return row * Layout::kSumPitch + column / 8 * 16 + column % 8;
  }

  // Adds up the sums of the warps, then those of the cluster, and stores D. A thread has both sums of an element.
  static __device__ __forceinline__ void add_up(Params const& params, char* memory, int split, int tile) {
    sm90::EpilogueParams const& epilogue = params.epilogue;
    float* const totals = reinterpret_cast<float*>(memory + Layout::kTotalsAt);
    int const count = epilogue.m * kOfTile;
#pragma unroll 1
    for (int i = threadIdx.x; i < count; i += kThreads) {
      int const place = place_of(i);
      totals[place] = Warp::total(memory, place);
      totals[place + kUp] = Warp::total(memory, place + kUp);
    }
    if (params.splits > 1) {
      sm90::cluster_barrier();
    }  // otherwise a thread reads what it has written itself
    uint32_t const address = sm90::shared_address(totals);
#pragma unroll 1
    for (int i = split * kThreads + threadIdx.x; i < count; i += params.splits * kThreads) {
      float gate = 0.0f, up = 0.0f;
#pragma unroll 1
      for (int rank = 0; rank < params.splits; ++rank) {
        uint32_t const place = sm90::cluster_address(address + place_of(i) * 4, rank);
        gate += sm90::load_float_cluster(place);
        up += sm90::load_float_cluster(place + kUp * 4);
      }
      int const row = i / kOfTile, column = tile * kOfTile + i % kOfTile;
      if (column < epilogue.n) {
        store(epilogue, gate, up, row, column);
      }
    }
    if (params.splits > 1) {
      sm90::cluster_barrier();  // no CTA ends before its shared memory is read
    }
  }

  // Stores one element of D. The bias has those of gate first.
  static __device__ __forceinline__ void store(sm90::EpilogueParams const& params, float gate, float up, int row,
                                               int column) {
    gate *= params.alpha, up *= params.alpha;
    if (params.bias != nullptr) {
      gate += sm90::load(ElementD::kAddend, params.bias, column);
      up += sm90::load(ElementD::kAddend, params.bias, params.n + column);
    }
    float const value = __fdividef(gate, 1.0f + __expf(-gate)) * up;  // as sm90/gated_epilogue.hpp
    ElementD::store(params.d, row * params.ld_d + column, value);
  }
};

template <class Traits>
struct GatedMaker : Maker<Traits> {
  using Plain = Maker<Traits>;
  using Args = typename Plain::Args;

  static bool can_implement(Args const& args) { return is_gated(args) && Plain::can_implement(not_gated(args)); }

  static cudaError_t make_params(Args const& args, Params& params, LaunchShape& shape) {
    cudaError_t const error = Plain::make_params(not_gated(args), params, shape);
    params.epilogue.n = args.n / 2;
    return error;
  }
};

template <class Traits>
using GatedHost = LaunchedOnce<Traits, GatedMaker<Traits>>;

}  // namespace tilewright::mixed_gemm::stream

#define TILEWRIGHT_GATED_STREAM_MIXED_GEMM_KERNEL(NAME)                                       \
  TILEWRIGHT_KERNEL(NAME, tilewright::NAME::Mixed, tilewright::mixed_gemm::stream::GatedHost, \
                    tilewright::NAME::Mixed::kBlocks, 1024)
