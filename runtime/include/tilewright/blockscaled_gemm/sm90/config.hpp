// The compile-time configuration of an sm_90a block-scaled kernel: tiles, shared memory, parameters.
#pragma once

#include <cstdint>

#include "tilewright/blockscaled_gemm/sm90/decode.hpp"
#include "tilewright/blockscaled_gemm/sm90/epilogue.hpp"
#include "tilewright/blockscaled_gemm/sm90/operand.hpp"
#include "tilewright/sm90/wgmma.hpp"
#include "tilewright/sm90/wgmma_registers.hpp"

namespace tilewright::blockscaled_gemm::sm90 {

template <class FormatA, class FormatB, class ElementD_, int TileM_, int TileN_, int TileK_, int Stages_, bool kWithC_,
          bool kWithBias_ = false>
struct Config {
  using ElementD = ElementD_;
  static constexpr int TileM = TileM_, TileN = TileN_, TileK = TileK_, Stages = Stages_;
  static constexpr bool kWithC = kWithC_, kWithBias = kWithBias_;
  using Weights = OperandTile<FormatB, TileM, TileK>;
  using Activations = OperandTile<FormatA, TileN, TileK>;
  using Type = typename Weights::Decode::Type;  // of decoded elements, which wgmma multiplies
  static constexpr Pairing kPairing = kCommonPairing<FormatA, FormatB>;
  static_assert(Weights::Decode::kBlock == Activations::Decode::kBlock,
                "both operands must have scale blocks of the same size");
  static_assert(TileM == 64 || TileM == 128 || TileM == 256);
  static_assert(TileN == 8 || TileN == 16 || TileN == 32 || TileN == 64 || TileN == 128);
  static_assert(Stages >= 2);

  static constexpr int kColumns = TileK / Weights::Decode::kBlock;  // of scale factors in a k tile
  static constexpr int kWarps = TileM / 16;
  static constexpr int kThreads = kWarps * 32;
  using Store = Epilogue<ElementD, TileM, TileN, kThreads, kWithC, kWithBias>;

  // Shared memory holds the buffers of decoded activations, then the stages' data and scale factors, then barriers.
  // The epilogue reuses all of it up to the barriers.
  static constexpr int kDecodedBytes = TileN * TileK * 2;
  static constexpr int kStageBytes =
      Weights::kSlotBytes + Activations::kSlotBytes + Weights::kScaleBytes + Activations::kScaleBytes;
  static constexpr int barriers_at(int buffers) {
    int const pipeline = buffers * kDecodedBytes + Stages * kStageBytes;
    return pipeline > Store::kBytes ? pipeline : (Store::kBytes + 15) / 16 * 16;
  }
  static constexpr int shared_bytes(int buffers) { return barriers_at(buffers) + Stages * 8; }
  static constexpr int blocks_per_sm(int buffers) { return 228 * 1024 / (shared_bytes(buffers) + 1024); }

  // CTAs per SM. Shared memory limits them, and kMaxBlocks leaves a thread about 100 registers.
  static constexpr int kMaxBlocks = TileN == 128 ? 128 / TileM : TileM == 64 ? 4 : TileM == 128 ? 2 : 1;
  static constexpr int min_of(int x, int y) { return x < y ? x : y; }
  static constexpr int kMinBlocks = blocks_per_sm(2) < 1 || kMaxBlocks < 1 ? 1 : min_of(blocks_per_sm(2), kMaxBlocks);
  // With a third buffer of decoded activations, wgmma still has work while the next k tile is decoded. It is used
  // where it does not lower the number of CTAs per SM.
  static constexpr int kBuffers = blocks_per_sm(3) >= kMinBlocks ? 3 : 2;
  static constexpr int kBarriersAt = barriers_at(kBuffers);
  static constexpr int kSharedBytes = shared_bytes(kBuffers);
  static_assert(kSharedBytes <= 227 * 1024, "the stages exceed the shared memory of sm_90");

  struct Params {
    CUtensorMap weights, activations;
    uint8_t const* weight_scales;
    uint8_t const* activation_scales;
    int64_t weight_scale_stride, activation_scale_stride;  // bytes between the matrices of a batch
    typename Store::Params epilogue;
    int k_tiles;
    int atoms;              // of scale factors along k
    int last_columns;       // of scale factors in the last k tile
    int weight_row_blocks;  // blocks of 128 rows of the weights' scale factors
    int splits;
    bool along_m;                                   // grid.x counts tiles along the caller's m, otherwise along n
    bool broadcast_weights, broadcast_activations;  // one matrix serves every batch
    uint64_t weight_policy;
  };

  // The tile of D and the range of k tiles that a CTA computes.
  struct Work {
    int m0, n0, batch, split;
    int first_k_tile, k_tiles;

    __device__ __forceinline__ explicit Work(Params const& params)
        : m0((params.along_m ? blockIdx.x : blockIdx.y) * TileN),
          n0((params.along_m ? blockIdx.y : blockIdx.x) * TileM),
          batch(blockIdx.z / params.splits),
          split(blockIdx.z % params.splits),
          first_k_tile(first_k_tile_of(params, split)),
          k_tiles(first_k_tile_of(params, split + 1) - first_k_tile) {}

    static __device__ __forceinline__ int first_k_tile_of(Params const& params, int split) {
      return static_cast<int>(int64_t(params.k_tiles) * split / params.splits);
    }
  };

  // Addresses in shared memory, of a buffer or stage.
  static __device__ __forceinline__ uint32_t decoded(uint32_t shared, int buffer) {
    return shared + buffer * kDecodedBytes;
  }
  static __device__ __forceinline__ uint32_t weights(uint32_t shared, int stage) {
    return decoded(shared, kBuffers) + stage * Weights::kSlotBytes;
  }
  static __device__ __forceinline__ uint32_t activations(uint32_t shared, int stage) {
    return weights(shared, Stages) + stage * Activations::kSlotBytes;
  }
  static __device__ __forceinline__ uint32_t weight_scales(uint32_t shared, int stage) {
    return activations(shared, Stages) + stage * Weights::kScaleBytes;
  }
  static __device__ __forceinline__ uint32_t activation_scales(uint32_t shared, int stage) {
    return weight_scales(shared, Stages) + stage * Activations::kScaleBytes;
  }
  static __device__ __forceinline__ uint32_t full(uint32_t shared, int stage) {
    return shared + kBarriersAt + stage * 8;
  }
};

}  // namespace tilewright::blockscaled_gemm::sm90
