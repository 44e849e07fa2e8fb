// The phases (sm90/product.hpp) of a CTA of `mixed_grouped_gemm` and `mixed_fp8_grouped_gemm`: it multiplies
// activations by packed weights, and each row of activations has the weight of its group (an expert of a mixture).
//
// As in mixed_gemm/phases.hpp, operands are swapped: the kernel's rows are D's columns (n), its columns D's rows. As in
// grouped_gemm/kernel.hpp, the device reads which rows belong to which group. The CTAs of a cluster share the
// activations of the same rows by multicast.
//
//   warps of the producer         work                              waits for
//   0                             loads elements of weights         a tile in the queue, a free stage
//   1                             schedules tiles                   a free slot of the queue
//   2                             loads activations                 a tile in the queue, a free stage
//   3                             loads scales of weights           a tile in the queue, a free stage
//   warpgroups of the consumers   decode, multiply, store           a tile in the queue, a full stage
#pragma once

#include <cstdint>

#include "tilewright/grouped_gemm/tile.hpp"
#include "tilewright/mixed_gemm/layout.hpp"
#include "tilewright/mixed_grouped_gemm/producers.hpp"
#include "tilewright/mixed_grouped_gemm/scheduler.hpp"
#include "tilewright/sm90/cluster.hpp"
#include "tilewright/sm90/cluster_reduction.hpp"
#include "tilewright/sm90/epilogue.hpp"
#include "tilewright/sm90/product.hpp"

namespace tilewright::mixed_grouped_gemm {

// The parameters of a launch that kernels of both families have.
struct OwnParams {
  int activation_bytes;        // bytes of activations that arrive in a stage
  float alpha;                 // with the format's factor
  float const* group_factors;  // a factor of each group, or null
  mixed_gemm::PackedWeight weight;
  mixed_grouped_gemm::Groups groups;
  grouped_gemm::Heads heads;  // no columns are skipped
  int clusters;
};

// The phases of a kernel. `Types` has the kernel's types and constants, and
//   kApart                                   whether two warpgroups store one after the other
//   kSumsOfElement                           sums of an element of D: 1, or 2 for gate and up, whose rows of W
//   alternate
//                                            in eights (sm90/gated.hpp)
//   prepare(params, mainloop)                tells a main loop what it needs to know of a launch
//   load_factors(params, tile)               loads factors of a tile's rows before its main loop
//   scale_rows(params, tile, factors, sums)  multiplies a tile's sums by the factors of its rows
template <class Types>
struct Phases : Types {
  using typename Types::ElementD;
  using typename Types::Layout;
  using typename Types::Mainloop;
  using typename Types::Params;
  using typename Types::Store;
  static constexpr int Stages = Types::Stages, Groups = Types::kGroups;
  static constexpr int kConsumers = Types::kConsumers, kOfGroup = Types::kOfGroup;  // warpgroups
  static constexpr int kRows = Types::kRows, kColumns = Types::kColumns;
  static constexpr int kThreads = (kConsumers + 1) * 128;
  // The memory through which groups of warpgroups, except the first, hand their sums to the first group.
  using Sums = sm90::ClusterReduction<kRows, kColumns, (kConsumers - kOfGroup) * 128>;
  static constexpr int kQueueAt = (Layout::kBytes + 15) / 16 * 16, kSumsAt = kQueueAt + TileQueue::kBytes;
  static constexpr int kSharedBytes = kSumsAt + (Groups > 1 ? Sums::kBytes : 0);
  static_assert(Stages >= 2 && Stages <= 32 && kSharedBytes <= 227 * 1024,
                "the stages exceed the shared memory of sm_90");

  __device__ __forceinline__ void operator()(Params const& params, char* memory) const {
    sm90::run_product<Phases>(params, memory);
  }

  static __device__ __forceinline__ void init_barriers(Params const& params, uint32_t shared) {
    sm90::start_stages<Layout, Stages>(params.cluster, shared, Producers<Phases>::kLoaders, kOfGroup);
#pragma unroll
    for (int slot = 0; slot < TileQueue::kSlots; ++slot) {
      TileQueue::start(shared + kQueueAt, slot, kConsumers * 4 + Producers<Phases>::kLoaders);
    }
  }

  static __device__ __forceinline__ void prefetch_maps(Params const& params) {
    sm90::prefetch_map(&params.b);
    sm90::prefetch_map(&params.d);
  }

  // Load: the producer's warps.
  static __device__ __forceinline__ void load(Params const& params, uint32_t shared, sm90::ClusterPlace const& place,
                                              bool) {
    sm90::enter<Types::kPdl>(params.cluster);
    Producers<Phases>::run(params, shared, place);
  }

  // Multiply: a consumer warpgroup.
  static __device__ __forceinline__ void multiply(Params const& params, uint32_t shared,
                                                  sm90::ClusterPlace const& place, int warpgroup) {
    int const first_slice = warpgroup % kOfGroup * kRows, group = warpgroup / kOfGroup;
    sm90::Release const release(Layout::empty(shared, 0), params.cluster.size(), place.sharers(params.cluster),
                                threadIdx.x % 128);
    Mainloop mainloop(shared, first_slice, group, release);
    Types::prepare(params, mainloop);
    sm90::enter<Types::kPdl>(params.cluster);
    Store store(params.epilogue, &params.d, shared + Layout::kStoresAt, warpgroup % kOfGroup);
    TileQueue queue(shared + kQueueAt);
    int const stages = params.k_tiles_per_split;
    // With two warpgroups, the second stores its rows of a tile after the first has stored its own, except in the last
    // tile. So the tensor core multiplies for one warpgroup while the other stores. The named barrier is safe if a tile
    // has more stages than the ring: the first warpgroup cannot arrive for the next tile before the second has waited
    // for this tile, because the first's last stage of the next tile needs a place in the ring that the second gives
    // back in that tile.
    bool const staggered = Types::kApart && kOfGroup == 2 && Groups == 1 && stages > Stages;
    int before = 0;  // stages of earlier tiles, modulo Groups
    Tile tile, next;
    for (bool more = queue.wait(tile); more; tile = next) {
      auto const factors = Types::load_factors(params, tile);
      float sums[kRows][kColumns / 2];
      if constexpr (Groups == 1) {
        mainloop.run(stages, sums);
      } else {
        int const skipped = (group - before) & (Groups - 1);  // the tile's stages before this group's first one
        mainloop.run(stages > skipped ? (stages - skipped - 1) / Groups + 1 : 0, sums);
        before = (before + stages) & (Groups - 1);
      }
      queue.read(tile);
      more = queue.pop_and_wait(tile, next);
      if (staggered && more && warpgroup == 1) {
        sm90::named_barrier_sync(kStored, 256);
      }
      if constexpr (Groups > 1) {
        add_groups(shared, group, sums);
      }
      if (group == 0) {
        CtaTile const cta_tile(params, place, tile, Layout::Slices);
        int const row = (cta_tile.slice + first_slice) * 64;  // of W
        Types::scale_rows(params, cta_tile, factors, sums);
        finish(params, cta_tile.group, row, sums);
        store.store_rows(sums, row, cta_tile.row, cta_tile.matrix,
                         grouped_gemm::TileRowFates{tile, params.groups.layout, params.groups.groups, params.heads});
      }
      if (staggered && more && warpgroup == 0) {
        sm90::named_barrier_arrive(kStored, 256);
      }
    }
    store.drain();
  }

 private:
  static constexpr int kAllConsumers = 5, kStored = 8;  // named barriers; 1 to 4 are the epilogues'

  // Adds the sums of the other groups of warpgroups to those of the first, in the order of the groups.
  static __device__ __forceinline__ void add_groups(uint32_t shared, int group, float (&sums)[kRows][kColumns / 2]) {
    uint32_t const thread = threadIdx.x % (kOfGroup * 128);
    sm90::named_barrier_sync(kAllConsumers, kConsumers * 128);  // the sums of the tile before have been read
    if (group > 0) {
      Sums::store_sums(shared + kSumsAt - kOfGroup * 128 * 16, sums);  // threads count from the first group's
    }
    sm90::named_barrier_sync(kAllConsumers, kConsumers * 128);
    if (group > 0) {
      return;
    }
#pragma unroll
    for (int other = 0; other < Groups - 1; ++other) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
#pragma unroll
        for (int i = 0; i < kColumns / 8; ++i) {
          uint32_t const place = (r * (kColumns / 8) + i) * (kConsumers - kOfGroup) * 128 + other * kOfGroup * 128;
          uint32_t words[4];
          sm90::load_words(shared + kSumsAt + (place + thread) * 16, words);
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            sums[r][i * 4 + j] += __uint_as_float(words[j]);
          }
        }
      }
    }
  }

  // Multiplies the sums by alpha and by the group's factor, and adds the group's bias. `row`: the first row of W. In
  // gated kernels, a group's bias has the columns of D for gate, and then those for up.
  static __device__ __forceinline__ void finish(Params const& params, int group, int row,
                                                float (&sums)[kRows][kColumns / 2]) {
    float const factor =
        params.group_factors != nullptr ? params.alpha * __ldg(params.group_factors + group) : params.alpha;
    constexpr int kSums = Types::kSumsOfElement;
    int const n = params.epilogue.n, thread = threadIdx.x % 128;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      float bias[2] = {};
      if (params.epilogue.bias != nullptr) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          int const own = row + r * 64 + thread / 32 * 16 + thread % 32 / 4 + 8 * h;
          int const column = kSums == 1 ? own : own / 16 * 8 + own % 8;  // of D
          int64_t const first = int64_t(group) * kSums + (kSums == 1 ? 0 : h);
          bias[h] = column < n ? sm90::load(ElementD::kAddend, params.epilogue.bias, first * n + column) : 0.0f;
        }
      }
#pragma unroll
      for (int i = 0; i < kColumns / 2; ++i) {
        sums[r][i] = sums[r][i] * factor + bias[i / 2 % 2];
      }
    }
  }
};

}  // namespace tilewright::mixed_grouped_gemm
