// A block-scaled GEMM for Hopper, whose tensor cores support neither FP4 nor block scales.
//
// Operands are swapped. Weights (the caller's b) are decoded in registers, which are wgmma's operand A. Activations
// (the caller's a) are decoded to shared memory, once per CTA, and are operand B. So TileM is along the caller's n,
// TileN along the caller's m, and the rows of the accumulators are columns of D. Each warpgroup multiplies 64 rows of
// weights. TMA loads packed data and scale factors several k tiles ahead.
//
// With split-k, the CTAs of a cluster divide k. They add their sums through distributed shared memory, in a fixed
// order and without a workspace.
//
// Within blocks of 128 elements, k is permuted alike for both operands. Thread t of a quad takes elements 32t to
// 32t + 31, which are one MX block or two NVFP4 blocks, as four octets. Octets w of the quad's four threads make up the
// 16-element steps 2w and 2w+1 of wgmma.
#pragma once

#include <cstdint>

#include "tilewright/blockscaled_gemm/args.h"
#include "tilewright/blockscaled_gemm/sm90/config.hpp"
#include "tilewright/blockscaled_gemm/sm90/mainloop.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::blockscaled_gemm::sm90 {

template <class FormatA, class FormatB, class ElementD, int TileM, int TileN, int TileK, int Stages, bool kWithC,
          bool kPdl, bool kWithBias_ = false>
struct Kernel {
  static constexpr bool kWithBias = kWithBias_;
  using Args = tilewright_blockscaled_gemm_args;
  using Config = sm90::Config<FormatA, FormatB, ElementD, TileM, TileN, TileK, Stages, kWithC, kWithBias>;
  using Params = typename Config::Params;
  using Weights = typename Config::Weights;
  using Activations = typename Config::Activations;
  using Store = typename Config::Store;
  using Work = typename Config::Work;
  static constexpr int kThreads = Config::kThreads;
  static constexpr int kSharedBytes = Config::kSharedBytes;
  static constexpr int kMinBlocks = Config::kMinBlocks;
  static constexpr int kBuffers = Config::kBuffers;

  static bool can_implement(Args const& args) {
    int const splits = splits_of(args);
    bool const sizes = args.m > 0 && args.n > 0 && args.k > 0 && args.batch > 0;
    bool const split = splits == 1 || splits == 2 || splits == 4 || splits == 8;
    return sizes && split && args.k % 32 == 0 && rows_aligned<Activations>(args.ld_a, args.batch_stride_a) &&
           rows_aligned<Weights>(args.ld_b, args.batch_stride_b) && (kWithC || args.beta == 0.0f) &&
           args.scale_d == nullptr && ceil_div(args.m, TileN) <= 65535 && ceil_div(args.n, TileM) <= 65535 &&
           int64_t(args.batch) * splits <= 65535;
  }

  static dim3 grid(Args const& args) {
    unsigned const m = ceil_div(args.m, TileN), n = ceil_div(args.n, TileM), z = args.batch * splits_of(args);
    return along_m(args) ? dim3(m, n, z) : dim3(n, m, z);
  }

  static dim3 cluster(Args const& args) { return dim3(1, 1, splits_of(args)); }

  static cudaError_t make_params(Args const& args, Params& params) {
    constexpr int kBlock = Weights::Decode::kBlock;
    params.weight_scales = static_cast<uint8_t const*>(args.scale_b);
    params.activation_scales = static_cast<uint8_t const*>(args.scale_a);
    params.atoms = ceil_div(ceil_div(args.k, kBlock), 4);
    params.weight_row_blocks = ceil_div(args.n, 128);
    params.weight_scale_stride = int64_t(params.weight_row_blocks) * params.atoms * kAtomBytes;
    params.activation_scale_stride = int64_t(ceil_div(args.m, 128)) * params.atoms * kAtomBytes;
    params.k_tiles = ceil_div(args.k, TileK);
    params.last_columns = ceil_div(args.k, kBlock) - (params.k_tiles - 1) * Config::kColumns;
    params.splits = splits_of(args);
    params.along_m = along_m(args);
    params.broadcast_weights = args.batch == 1 || args.batch_stride_b == 0;
    params.broadcast_activations = args.batch == 1 || args.batch_stride_a == 0;
    params.weight_policy = args.m <= TileN && !(params.broadcast_weights && args.batch > 1) ? kEvictFirst : kKeepNormal;
    EpilogueParams& epilogue = params.epilogue;
    epilogue = {args.c,
                args.d,
                args.alpha,
                args.ld_c,
                args.ld_d,
                args.batch_stride_c,
                args.batch_stride_d,
                args.beta,
                args.m,
                args.n,
                rows_at_16_bytes(args.c, args.ld_c, args.batch_stride_c, args.batch),
                rows_at_16_bytes(args.d, args.ld_d, args.batch_stride_d, args.batch)};
    if (cudaError_t const error =
            encode<Weights>(params.weights, args.b, args.n, args.ld_b, args.batch_stride_b, args, TileM);
        error != cudaSuccess) {
      return error;
    }
    return encode<Activations>(params.activations, args.a, args.m, args.ld_a, args.batch_stride_a, args, TileN);
  }

  __device__ __forceinline__ void operator()(Params const& params, char* memory) const {
    uint32_t const shared = shared_address(memory);
    int const warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
    Work const work(params);
    prologue(params, shared);

    float accumulators[TileN / 2];
#pragma unroll
    for (float& value : accumulators) {
      value = 0.0f;
    }
    Mainloop<Config> const mainloop(params, work, shared, warp);
    mainloop.multiply(work.k_tiles, accumulators);
    __syncthreads();  // the epilogue overwrites the stages, which all threads have read now
    if constexpr (kPdl) {
      allow_next_kernel();
    }
    Store::store_accumulators(shared, accumulators, mainloop.row, threadIdx.x % 4);
    finish(params, work, shared);
  }

 private:
  // Initialises the barriers. Afterwards, threads may read what the previous kernel wrote.
  static __device__ __forceinline__ void prologue(Params const& params, uint32_t shared) {
    if (shared % 1024 != 0) {
      __trap();  // TMA's swizzle requires this alignment, and static shared memory would break it
    }
    if (threadIdx.x == 0) {
      prefetch_map(&params.weights);
      prefetch_map(&params.activations);
      for (int stage = 0; stage < Stages; ++stage) {
        barrier_init(Config::full(shared, stage), 1);
      }
      fence_barrier_init();
    }
    __syncthreads();
    if constexpr (kPdl) {
      wait_for_previous_kernel();
    }
  }

  // Adds up the sums of the cluster's CTAs and stores them to D.
  static __device__ __forceinline__ void finish(Params const& params, Work const& work, uint32_t shared) {
    constexpr float kFactor = 1.0f / (Weights::Decode::kFactor * Activations::Decode::kFactor);
    if (params.splits > 1) {
      cluster_barrier();
    } else {
      __syncthreads();
    }
    Store::store(params.epilogue, shared, kFactor, threadIdx.x, work.split, params.splits, work.batch, work.m0,
                 work.n0);
    if (params.splits > 1) {
      cluster_barrier();  // other CTAs may still read this CTA's sums, so it must not exit before
    }
  }

  static constexpr int ceil_div(int x, int y) { return (x + y - 1) / y; }
  static int splits_of(Args const& args) { return args.tactic.splits; }

  // Unless the tactic says otherwise, neighbouring CTAs go along m, so that they share the weights, the larger operand.
  static bool along_m(Args const& args) { return args.tactic.raster != TILEWRIGHT_RASTER_ALONG_N; }

  // Whether an operand's rows and matrices lie multiples of 16 bytes apart.
  template <class Tile>
  static bool rows_aligned(int64_t leading, int64_t batch_stride) {
    constexpr int64_t kElements = 128 / Tile::Decode::kBits;
    return leading % kElements == 0 && batch_stride % kElements == 0;
  }

  // Whether all rows of C or D begin at multiples of 16 bytes.
  static bool rows_at_16_bytes(void const* address, int64_t leading, int64_t batch_stride, int batch) {
    return reinterpret_cast<uintptr_t>(address) % 16 == 0 && leading % Store::kVector == 0 &&
           (batch == 1 || batch_stride % Store::kVector == 0);
  }

  template <class Tile>
  static cudaError_t encode(CUtensorMap& map, void const* address, int rows, int64_t leading, int64_t batch_stride,
                            Args const& args, int box_rows) {
    constexpr int kBits = Tile::Decode::kBits;
    return encode_map<Tile>(map, address, args.k / 8 * kBits, rows, args.batch, leading * kBits / 8,
                            batch_stride * kBits / 8, box_rows);
  }
};

}  // namespace tilewright::blockscaled_gemm::sm90
