// The main loop: TMA loads packed data, threads decode it, and wgmma multiplies it.
#pragma once

#include <cstdint>

#include "tilewright/blockscaled_gemm/sm90/config.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::blockscaled_gemm::sm90 {

// Loads stages. Called by one thread.
template <class Config>
struct Producer {
  using Params = typename Config::Params;
  using Work = typename Config::Work;
  using Weights = typename Config::Weights;
  using Activations = typename Config::Activations;

  Params const& params;
  Work const& work;
  uint32_t const shared;

  // Issues the TMA copies of the CTA's k tile number `i`.
  __device__ __forceinline__ void load(int stage, int i) const {
    int const tile = work.first_k_tile + i;
    uint32_t const barrier = Config::full(shared, stage);
    int const scale_bytes = min(Weights::kAtoms, params.atoms - tile * Weights::kAtoms) * kAtomBytes;
    int const row_blocks = min(Weights::kRowBlocks, params.weight_row_blocks - work.n0 / 128);
    barrier_expect(barrier, Weights::kBytes + Activations::kBytes + (row_blocks + 1) * scale_bytes);

    int const weight_matrix = params.broadcast_weights ? 0 : work.batch;
#pragma unroll
    for (int box = 0; box < Weights::kBoxes; ++box) {
      copy_box(Config::weights(shared, stage) + box * Weights::kBoxBytes, &params.weights, barrier,
               tile * Weights::kRowBytes + box * Weights::kWidth, work.n0, weight_matrix, params.weight_policy);
    }
    int const activation_matrix = params.broadcast_activations ? 0 : work.batch;
#pragma unroll
    for (int box = 0; box < Activations::kBoxes; ++box) {
      copy_box(Config::activations(shared, stage) + box * Activations::kBoxBytes, &params.activations, barrier,
               tile * Activations::kRowBytes + box * Activations::kWidth, work.m0, activation_matrix, kKeepNormal);
    }
    uint8_t const* const weight_matrix_scales = params.weight_scales + work.batch * params.weight_scale_stride;
#pragma unroll
    for (int block = 0; block < Weights::kRowBlocks; ++block) {
      if (block < row_blocks) {
        copy_bytes(Config::weight_scales(shared, stage) + block * Weights::kAtoms * kAtomBytes,
                   weight_matrix_scales + atoms_before(work.n0 / 128 + block, tile), scale_bytes, barrier,
                   params.weight_policy);
      }
    }
    copy_bytes(
        Config::activation_scales(shared, stage),
        params.activation_scales + work.batch * params.activation_scale_stride + atoms_before(work.m0 / 128, tile),
        scale_bytes, barrier, kKeepNormal);
  }

  // The offset of the scale factors of a block of 128 rows and a k tile, in bytes.
  __device__ __forceinline__ int64_t atoms_before(int row_block, int tile) const {
    return (int64_t(row_block) * params.atoms + tile * Weights::kAtoms) * kAtomBytes;
  }
};

// The consumer's side: a thread decodes operands and multiplies.
template <class Config>
struct Mainloop {
  using Params = typename Config::Params;
  using Work = typename Config::Work;
  using Weights = typename Config::Weights;
  using Activations = typename Config::Activations;
  static constexpr int TileN = Config::TileN, TileK = Config::TileK;

  static constexpr bool kFp4 = Weights::Decode::kBits == 4;
  static constexpr int kHalves = TileK / 64;           // halves of a block of 128, each multiplied by four wgmma
  static constexpr int kHalvesPerLoad = kFp4 ? 2 : 1;  // of a row, in the 16 bytes that a thread loads at once
  static constexpr int kWordsPerOctet = Weights::Decode::kBits / 4;

  // Packed weights of two rows, which are 8 apart.
  struct Packed {
    uint32_t words[2][4];
    uint32_t scales[2];
  };

  Producer<Config> const producer;
  uint32_t const shared;
  int const warp, lane;
  int const row;                  // of the tile: the first of the thread's two rows of weights
  int const weight_scale_offset;  // of that row's scale factors in a stage
  int const activation_row;       // first row of the tile in its block of 128 rows
  int const row_groups;           // groups of 8 rows of activations that are not outside of the matrix

  __device__ __forceinline__ Mainloop(Params const& params, Work const& work, uint32_t shared, int warp)
      : producer{params, work, shared},
        shared(shared),
        warp(warp),
        lane(threadIdx.x % 32),
        row(warp * 16 + Weights::quad_row(lane / 4)),
        weight_scale_offset(scale_offset(work.n0 % 128 + row, lane % 4)),
        activation_row(work.m0 % 128),
        row_groups((min(TileN, params.epilogue.m - work.m0) + 7) / 8) {}

  static __device__ __forceinline__ int scale_offset(int row, int thread) {
    int const offset = row / 128 * Weights::kAtoms * kAtomBytes + atom_row(row);
    return Weights::Decode::kBlock == 32 ? offset + thread : offset + thread / 2 * kAtomBytes + thread % 2 * 2;
  }

  // Multiplies the CTA's `tiles` k tiles.
  __device__ __forceinline__ void multiply(int tiles, float (&accumulators)[TileN / 2]) const {
    if (tiles == 0) {
      return;
    }
    uint32_t fragments[2][16] = {};  // one set is decoded while wgmma reads the other
    int stage = 0, buffer = 0;
    uint32_t parity = 0;
    if (warp == 0 && elect_one()) {
      for (int i = 0; i < Config::Stages && i < tiles; ++i) {
        producer.load(i, i);
      }
    }
    __syncwarp();
    wait_for_stage(0, 0, tiles == 1);
    Packed next = load(0, 0);
    decode_activations(0, 0);
    fence_async_proxy();
    __syncthreads();

    for (int tile = 0; tile < tiles; ++tile) {
      uint64_t const descriptor = swizzled_descriptor(Config::decoded(shared, buffer));
      Packed packed;
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
        uint32_t (&fragment)[16] = fragments[half % 2];
        if (half % kHalvesPerLoad == 0) {
          packed = next;
          if (half + kHalvesPerLoad < kHalves) {
            next = load(stage, half / kHalvesPerLoad + 1);
          }
        }
        decode(packed, half % kHalvesPerLoad, fragment);
        hold(fragment);
        hold(accumulators);
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < 4; ++step) {
          WgmmaRegisters<typename Config::Type, TileN>::run(accumulators, fragment + step * 4,
                                                            descriptor + ((half * TileN * 128 + step * 32) >> 4));
        }
        wgmma_commit();
        wgmma_wait<1>();
        hold(fragments[1 - half % 2]);
      }

      int const consumed_stage = stage;
      if (++stage == Config::Stages) {
        stage = 0;
        parity ^= 1;
      }
      buffer = buffer + 1 == Config::kBuffers ? 0 : buffer + 1;
      if (tile + 1 < tiles) {
        wait_for_stage(stage, parity, tile + 2 == tiles);
        next = load(stage, 0);
        decode_activations(stage, buffer);
        fence_async_proxy();
        if constexpr (Config::kBuffers == 2) {
          wgmma_wait<0>();
        }
        __syncthreads();  // all threads have decoded the next activations and read all of this stage
        if (warp == 0 && tile + Config::Stages < tiles && elect_one()) {
          producer.load(consumed_stage, tile + Config::Stages);
        }
        __syncwarp();
      }
    }
    wgmma_wait<0>();
    hold(accumulators);
  }

  // Waits until a stage holds its k tile. `last`: it is the CTA's last k tile.
  __device__ __forceinline__ void wait_for_stage(int stage, uint32_t parity, bool last) const {
    Params const& params = producer.params;
    barrier_wait(Config::full(shared, stage), parity);
    if (last && params.last_columns < Config::kColumns && producer.work.split + 1 == params.splits) {
      clear_padding(Config::weight_scales(shared, stage), Weights::kScaleBytes / 4);
      clear_padding(Config::activation_scales(shared, stage), Activations::kScaleBytes / 4);
      __syncthreads();
    }
  }

  // Clears what follows the last scale factor of each row: the layout's padding, which may hold anything, and what is
  // left of the stage's previous k tile. TMA sets the data there to zero, but zero times a scale that is NaN is NaN.
  __device__ __forceinline__ void clear_padding(uint32_t scales, int words) const {
#pragma unroll 1
    for (int i = threadIdx.x; i < words; i += Config::kThreads) {
      int const atom = i / (kAtomBytes / 4) % Weights::kAtoms;
      int const remaining = producer.params.last_columns - atom * 4;  // scale factors in and behind this word
      if (remaining < 4) {
        uint32_t const word = scales + i * 4;
        store_word(word, remaining <= 0 ? 0 : load_word(word) & (~0u >> (32 - remaining * 8)));
      }
    }
  }

  // Loads 16 bytes of each of the thread's rows. `unit` counts such loads from a stage.
  __device__ __forceinline__ Packed load(int stage, int unit) const {
    int const thread = lane % 4;
    int const block = kFp4 ? unit : unit / 2;
    uint32_t const data =
        Config::weights(shared, stage) + Weights::chunk(row, block, kFp4 ? thread : thread * 2 + unit % 2);
    uint32_t const scale = Config::weight_scales(shared, stage) + weight_scale_offset +
                           block * (128 / Weights::Decode::kBlock / 4) * kAtomBytes;
    Packed packed;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      load_words(data + i * 8 * Weights::kWidth, packed.words[i]);
      packed.scales[i] = Weights::Decode::kBlock == 32 ? load_byte(scale + i * 8 * 16) : load_short(scale + i * 8 * 16);
    }
    return packed;
  }

  // Decodes two octets of each row to operand A of four wgmma. `half`: which half of the 32 elements of a thread.
  __device__ __forceinline__ void decode(Packed const& packed, int half, uint32_t (&fragment)[16]) const {
    using Decode = typename Weights::Decode;
    uint32_t octets[2][2][4];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      uint32_t const factor = Decode::factor_of_half(packed.scales[i], half);
#pragma unroll
      for (int octet = 0; octet < 2; ++octet) {
        Decode::template octet<Config::kPairing>(packed.words[i] + (half * 2 + octet) * kWordsPerOctet, factor,
                                                 octets[i][octet]);
      }
    }
    if constexpr (Decode::kRepairs) {
      uint32_t const repairs = Decode::words_to_repair(packed.words[0]) | Decode::words_to_repair(packed.words[1]) |
                               Decode::scales_to_repair(packed.scales[0] | packed.scales[1] << 8);
      if (__any_sync(~0u, repairs != 0)) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          uint32_t const factor = Decode::second_factor(packed.scales[i]);
#pragma unroll
          for (int octet = 0; octet < 2; ++octet) {
            Decode::template repair<Config::kPairing>(packed.words[i] + (half * 2 + octet) * kWordsPerOctet, factor,
                                                      octets[i][octet]);
          }
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      fragment[i] = octets[i % 2][i / 8][i / 2 % 4];
    }
  }

  // Decodes a stage's activations to shared memory. A warp decodes 8 rows of 128 elements at a time. A thread decodes
  // one octet of each 32 elements of its row. These are the elements that wgmma multiplies by the octets that the four
  // threads of a quad decode of the weights.
  __device__ __forceinline__ void decode_activations(int stage, int buffer) const {
    using Decode = typename Activations::Decode;
    constexpr int kGroups = TileN / 8;
    constexpr int kTasks = kGroups * (TileK / 128);
    int const octet = lane / 8;
#pragma unroll 1
    for (int task = warp; task < kTasks; task += Config::kWarps) {
      int const group = task % kGroups, block = task / kGroups;
      if (group >= row_groups) {
        continue;
      }
      int const tile_row = group * 8 + lane % 8;
      uint32_t words[4][Decode::kBits / 4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        uint32_t const data = Config::activations(shared, stage);
        if constexpr (Decode::kBits == 4) {
          words[i][0] = load_word(data + Activations::chunk(tile_row, block, i) + octet * 4);
        } else {
          load_words(data + Activations::chunk(tile_row, block, i * 2 + octet / 2) + octet % 2 * 8, words[i]);
        }
      }
      uint32_t const scale_offset = Config::activation_scales(shared, stage) + atom_row(activation_row + tile_row);
      uint32_t scales;
      if constexpr (Decode::kBlock == 32) {
        scales = load_word(scale_offset + block * kAtomBytes);
      } else {
        scales = __byte_perm(load_word(scale_offset + block * 2 * kAtomBytes),
                             load_word(scale_offset + (block * 2 + 1) * kAtomBytes), octet < 2 ? 0x6420 : 0x7531);
      }
      uint32_t factors[4], out[4][4];
      Decode::factors(scales, factors);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        Decode::template octet<Config::kPairing>(words[i], factors[i], out[i]);
      }
      if constexpr (Decode::kRepairs) {
        uint32_t repairs = Decode::scales_to_repair(scales);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          repairs |= Decode::words_to_repair(words[i]);
        }
        if (__any_sync(~0u, repairs != 0)) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            Decode::template repair<Config::kPairing>(words[i], Decode::second_factor((scales >> (8 * i)) & 0xFF),
                                                      out[i]);
          }
        }
      }
      uint32_t const target =
          Config::decoded(shared, buffer) + (block * 2 + octet / 2) * (TileN * 128) + tile_row * 128;
#pragma unroll
      for (int pair = 0; pair < 4; ++pair) {
        uint32_t const chunk = (octet % 2 * 4 + pair) ^ (tile_row & 7);
        store_words(target + chunk * 16, out[0][pair], out[1][pair], out[2][pair], out[3][pair]);
      }
    }
  }
};

}  // namespace tilewright::blockscaled_gemm::sm90
