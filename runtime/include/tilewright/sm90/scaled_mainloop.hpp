// The main loop of a consumer warpgroup for FP8 operands whose elements share scale factors along 128 of k:
//
//   D[64 * Rows, N] += sum over blocks of 128 k of SA * SB * (A B^T of the block)
//
// The tensor core sums a block of 128 k. Then the warpgroup promotes the sums: it multiplies them by their factors and
// adds them to F32 registers. Meanwhile the tensor core needs other work (Promotion). A unit is 64 rows, all or half of
// the columns, and 128 of k; T: its wgmmas run, P: it is promoted.
//
//   kAfter        warpgroup 0   T1   P1   T2   P2       the warpgroups do not wait for each other; while one promotes,
//                 warpgroup 1      T1   P1   T2   P2    the other one's wgmmas run
//
//   kInTurn       warpgroup 0   T1   P1   T2   P2       a stage's first T begins when half of the other
//                 warpgroup 1      T1   P1   T2   P2    warpgroup's first T is done (kOrderBarrier)
//
//   kOverlapped   warpgroup 0   T1   T2   T3   T4       T2 is issued before P1 begins: two sets of accumulators
//                                    P1   P2   P3
//
//   kHalves       warpgroup 0   T1a  T1b  T2a  T2b      as kOverlapped, with units of half of the columns (a, b): two
//                                    P1a  P1b  P2a      sets of half as many accumulators
//
// A stage is released after its last wgmma has read it and after the loads of its factors have returned (`give_back`).
#pragma once

#include <cstdint>
#include <numeric>

#include "tilewright/sm90/mainloop.hpp"
#include "tilewright/sm90/pipeline.hpp"
#include "tilewright/sm90/ptx.hpp"
#include "tilewright/sm90/scaled_layout.hpp"
#include "tilewright/sm90/wgmma.hpp"

namespace tilewright::sm90 {

// Loads two neighbouring floats of shared memory.
__device__ __forceinline__ float2 load_pair(uint32_t address) {
  float2 value;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(value.x), "=f"(value.y) : "r"(address) : "memory");
  return value;
}

// Tests whether the barrier's phase is over. The test is issued before its answer is needed, so that other instructions
// run meanwhile. Unless `asks`, returns true without a test: after the last stage, the test might wait forever.
__device__ __forceinline__ bool barrier_passed(uint32_t barrier, uint32_t parity, bool asks) {
  uint32_t passed;
  asm volatile(
      "{\n"
      ".reg .pred asks, done;\n"
      "setp.ne.b32 asks, %3, 0;\n"
      "setp.eq.b32 done, %3, 0;\n"
      "@asks mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n"
      "selp.u32 %0, 1, 0, done;\n"
      "}\n"
      : "=r"(passed)
      : "r"(barrier), "r"(parity), "r"(static_cast<uint32_t>(asks))
      : "memory");
  return passed != 0;
}

// Returns `value` by an instruction that ptxas does not repeat, so that the result stays in a register. Where registers
// are short, ptxas would compute addresses anew between the wait for a stage and its first wgmma: for 128x192, ten
// instructions that each wait for the one before. Called by whole warps.
__device__ __forceinline__ uint32_t kept(uint32_t value) {
  return __shfl_sync(~0u, value, static_cast<int>(threadIdx.x % 32));
}

// When a warpgroup promotes the sums of a block of k (see the timelines above).
enum class Promotion {
  kAfter,       // after its wgmmas are done
  kInTurn,      // the same, in alternation with the other warpgroup, whose wgmmas run meanwhile
  kOverlapped,  // while its own next wgmmas run, which takes a second set of registers
  kHalves,      // one half of the columns while the wgmmas of the other half run
};

template <class A, class B, class Layout, Scales kA, Scales kB, Promotion kPromotion, int TileM, int TileN, int Rows,
          int N, int Boxes, int Stages>
struct ScaledMainloop {
  static constexpr int kCount = N / 2;  // accumulators of 64 rows
  static constexpr int kHalves = kPromotion == Promotion::kHalves ? 2 : 1;
  static constexpr int kPart = kCount / kHalves;  // accumulators of a unit
  static constexpr int kSums = 176;               // registers of a thread for sums, and for factors that are kept
  static_assert(N % (8 * kHalves) == 0);
  static constexpr int kUnit = std::gcd(N / kHalves, kScaleBlock);  // columns that lie in one block of 128 for sure
  static constexpr int kColumnBlocks = kB == Scales::kBlocks ? Layout::kBlocks : 1;
  // Whether factors of columns are loaded before a stage's wgmmas, and kept in registers for all of the warpgroup's
  // rows: those of kKept column groups, as many as registers allow. A load takes two clocks of the shared memory, and
  // queues behind what wgmma reads. When the factors were loaded after the wgmmas, for each 64 rows, these loads took
  // 26 % of the loop.
  static constexpr bool kKeeps = kA == Scales::kRows && kB == Scales::kRows &&
                                 (kPromotion == Promotion::kAfter || kPromotion == Promotion::kInTurn);
  static constexpr int kTaken = Rows * kCount + kPart, kFree = kKeeps && kSums > kTaken ? kSums - kTaken : 0;
  static constexpr int kKept = kFree / 2 < kPart / 4 ? kFree / 2 : kPart / 4, kMostKept = kKept > 0 ? kKept : 1;
  // Whether all factors of a stage are in registers when its wgmmas are done: it is released before the promotion then.
  static constexpr bool kAllKept = kB != Scales::kRows || kKept == kPart / 4;

  uint32_t shared;
  int first_row, first_column;  // of this warpgroup in the tile
  Release release;
  Position<Stages> at{};
  // Offsets, in bytes, of the factors of this thread's first row and first columns among those of a box.
  uint32_t own_row = kept((first_row + static_cast<int>(threadIdx.x) / 32 % 4 * 16 + threadIdx.x % 32 / 4) * 4);
  uint32_t own_columns = (first_column + threadIdx.x % 4 * 2) * 4;
  // The zero of `zero_after`. If it is not kept in a register, ptxas reads blockIdx.z for each stage, and the next
  // wgmma waits for it. With more rows than 64, no register is left for it.
  uint32_t zero = TileM == 64 ? kept(zero_after(~0u)) : zero_after(~0u);

  // The factors of 128x128 blocks that a warpgroup's rows or columns need for one 128 of k.
  struct Factors {
    float rows[Rows], columns[kColumnBlocks];

    __device__ __forceinline__ void load(uint32_t from, int first_row) {
      if constexpr (kA == Scales::kBlocks) {
#pragma unroll
        for (int r = 0; r < Rows; ++r) {
          rows[r] = load_float(from + (first_row + r * 64) / kScaleBlock * 4);
        }
      }
      if constexpr (kB == Scales::kBlocks) {
#pragma unroll
        for (int i = 0; i < kColumnBlocks; ++i) {
          columns[i] = load_float(from + i * 4);
        }
      }
    }
  };

  // Adds the products of the next `k_tiles` stages to `sum`. `column`: the warpgroup's first column in D. `parts`: mask
  // of the warpgroup's 64-row slices that are stored.
  __device__ __forceinline__ void run(int k_tiles, int column, uint32_t parts, float (&sum)[Rows][kCount]) {
    int const split = (kScaleBlock - column % kScaleBlock) / kUnit;  // units of the first block of columns
    if constexpr (kPromotion == Promotion::kOverlapped || kPromotion == Promotion::kHalves) {
      overlapped(k_tiles, split, sum);
    } else {
      // With kInTurn both warpgroups must run equally many units, so no slice is left out.
      if (Rows == 2 && kPromotion == Promotion::kAfter && (parts & 2) == 0) {
        one_by_one<1>(k_tiles, split, sum);
      } else {
        one_by_one<Rows>(k_tiles, split, sum);
      }
    }
  }

  // Releases the next `k_tiles` stages without using them, because this warpgroup stores no row of the tile. A named
  // barrier keeps its warps together, which wgmma does elsewhere. Otherwise a warp could fall behind by a whole ring,
  // as its stores may make it: it would take a later phase of a stage's barrier for the phase that it waits for, and
  // wait forever.
  __device__ __forceinline__ void skip(int k_tiles) {
    for (int i = 0; i < k_tiles; ++i) {
      barrier_wait(Layout::full(shared, at.stage), at.phase);
      wait_for_order();
      pass_order();
      named_barrier_sync(kSkipBarrier + static_cast<int>(threadIdx.x) / 128, 128);
      release(at.stage);
      at.next();
    }
  }

  // kInTurn: lets warpgroup 0 begin. Called once by each warpgroup, before its first tile.
  static __device__ __forceinline__ void start_order(int warpgroup) {
    if (kPromotion == Promotion::kInTurn && warpgroup == 1) {
      named_barrier_arrive(kOrderBarrier, 256);
    }
  }

 private:
  // Named barriers. kOrderBarrier + i: warpgroup i may issue a unit's wgmmas (kInTurn). kSkipBarrier + i: keeps the
  // warps of warpgroup i together.
  static constexpr int kOrderBarrier = 5, kSkipBarrier = 7;

  static __device__ __forceinline__ void wait_for_order() {
    if constexpr (kPromotion == Promotion::kInTurn) {
      named_barrier_sync(kOrderBarrier + static_cast<int>(threadIdx.x) / 128, 256);
    }
  }
  static __device__ __forceinline__ void pass_order() {
    if constexpr (kPromotion == Promotion::kInTurn) {
      named_barrier_arrive(kOrderBarrier + 1 - static_cast<int>(threadIdx.x) / 128, 256);
    }
  }

  // kAfter and kInTurn, for `kRows` of the 64-row slices, starting with the first.
  template <int kRows>
  __device__ __forceinline__ void one_by_one(int k_tiles, int split, float (&sum)[Rows][kCount]) {
    float part[kPart];
    barrier_wait(Layout::full(shared, at.stage), at.phase);
    for (int left = k_tiles; left > 0; --left) {
      int const stage = at.stage;
      bool arrived = true;  // whether the next stage's data have arrived
#pragma unroll
      for (int box = 0; box < Boxes; ++box) {
        // Before the wgmmas: after them, these loads would wait for all that wgmma reads (128x192 took 10 % longer).
        Factors now;
        now.load(Layout::blocks(shared, stage, box), first_row);
        float2 kept[kMostKept];
        load_columns(stage, box, kept);
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          bool const last = box == Boxes - 1 && r == kRows - 1;
          float factors[2];
          load_rows(stage, now, box, r, factors);
          bool const turn = kPromotion == Promotion::kInTurn && box == 0 && r == 0;
          if (turn) {
            wait_for_order();
          }
          multiply(stage, box, r, 0, part, turn);
          if (turn) {
            wgmma_wait<1>();
            pass_order();
          }
          wgmma_wait<0>();
          hold(part);
          if (kAllKept && last) {
            float const column = kB == Scales::kRows ? kept[kMostKept - 1].y : 0.0f;
            give_back(stage, loaded_by(now, factors) | __float_as_uint(column));
          }
          if (last) {
            at.next();
            arrived = barrier_passed(Layout::full(shared, at.stage), at.phase,
                                     left > 1);  // the answer is there when this is promoted
          }
          promote(stage, now, box, 0, factors, kept, split, part, sum[r]);
          if (!kAllKept && last) {
            give_back(stage, loaded_by(now, factors) | __float_as_uint(sum[r][kCount - 1]));
          }
        }
      }
      if (!arrived) {
        barrier_wait(Layout::full(shared, at.stage), at.phase);
      }
    }
  }

  // kOverlapped and kHalves: two sets of registers. One is for the unit whose wgmmas run, the other for the unit that
  // is promoted.
  struct Parts {
    float sums[2][kPart];
    float rows[2][2];
    Factors factors[2];
    Position<Stages> ahead;  // the stage whose wgmmas are issued; `at` is the stage whose units are promoted
  };
  static constexpr int kUnits = Boxes * Rows * kHalves;  // of a stage

  __device__ __forceinline__ void overlapped(int k_tiles, int split, float (&sum)[Rows][kCount]) {
    Parts parts;
    parts.ahead = at;
    barrier_wait(Layout::full(shared, at.stage), at.phase);
    issue<0>(0, parts);
    int left = k_tiles;
    constexpr int kSecond = kUnits % 2;
    for (; left > 2; left -= 2) {
      stage<0, false>(split, parts, sum);
      stage<kSecond, false>(split, parts, sum);
    }
    if (left == 2) {
      stage<0, false>(split, parts, sum);
      stage<kSecond, true>(split, parts, sum);
    } else {
      stage<0, true>(split, parts, sum);
    }
  }

  // Loads the factors of unit `unit` of stage `ahead` into set kSet, and issues its wgmmas.
  template <int kSet>
  __device__ __forceinline__ void issue(int unit, Parts& parts) {
    int const half = unit % kHalves, r = unit / kHalves % Rows, box = unit / (kHalves * Rows);
    if (unit % (kHalves * Rows) == 0) {
      parts.factors[kSet].load(Layout::blocks(shared, parts.ahead.stage, box), first_row);
    } else {
      parts.factors[kSet] = parts.factors[1 - kSet];
    }
    if (half == 0) {
      load_rows(parts.ahead.stage, parts.factors[kSet], box, r, parts.rows[kSet]);
    } else {
      parts.rows[kSet][0] = parts.rows[1 - kSet][0], parts.rows[kSet][1] = parts.rows[1 - kSet][1];
    }
    multiply(parts.ahead.stage, box, r, half, parts.sums[kSet]);
  }

  // Promotes the units of stage `at`, each while the next unit's wgmmas run. The wgmmas of the first unit are issued
  // already, in set kFirst. `kLast`: no stage follows.
  template <int kFirst, bool kLast>
  __device__ __forceinline__ void stage(int split, Parts& parts, float (&sum)[Rows][kCount]) {
#pragma unroll
    for (int unit = 0; unit < kUnits; ++unit) {
      bool const last = unit == kUnits - 1;
      if (last && !kLast) {
        parts.ahead.next();
        barrier_wait(Layout::full(shared, parts.ahead.stage), parts.ahead.phase);
      }
      if ((kFirst + unit) % 2 == 0) {
        finish<0>(unit, !last || !kLast, split, parts, sum[unit / kHalves % Rows]);
      } else {
        finish<1>(unit, !last || !kLast, split, parts, sum[unit / kHalves % Rows]);
      }
    }
    at.next();
  }

  // Issues the wgmmas of the unit after `unit`, if there are `more`, and promotes `unit`, which is in set kSet.
  template <int kSet>
  __device__ __forceinline__ void finish(int unit, bool more, int split, Parts& parts, float (&sum)[kCount]) {
    if (more) {
      issue<1 - kSet>((unit + 1) % kUnits, parts);
      wgmma_wait<1>();
    } else {
      wgmma_wait<0>();
    }
    hold(parts.sums[kSet]);
    // The unit just issued may belong to the next stage. This stage is released after the loads of that unit's factors,
    // too, so that no load at all is in flight at an arrival, which the build can check. That costs no time, because
    // the wgmma above took longer.
    uint32_t const ahead = more ? loaded_by(parts.factors[1 - kSet], parts.rows[1 - kSet]) : 0;
    if (kB != Scales::kRows && unit == kUnits - 1) {
      give_back(at.stage, ahead | loaded_by(parts.factors[kSet], parts.rows[kSet]));
    }
    float2 const none[kMostKept] = {};
    uint32_t const columns = promote(at.stage, parts.factors[kSet], unit / (kHalves * Rows), unit % kHalves,
                                     parts.rows[kSet], none, split, parts.sums[kSet], sum);
    if (kB == Scales::kRows && unit == kUnits - 1) {
      give_back(at.stage, ahead | columns | loaded_by(parts.factors[kSet], parts.rows[kSet]));
    }
  }

  // A word that depends on the loads of a unit's factors: those of rows, and those of blocks of columns.
  static __device__ __forceinline__ uint32_t loaded_by(Factors const& of_blocks, float const (&rows)[2]) {
    uint32_t loaded = __float_as_uint(rows[0]) | __float_as_uint(rows[1]);
    if constexpr (kB == Scales::kBlocks) {
#pragma unroll
      for (float const factor : of_blocks.columns) {
        loaded |= __float_as_uint(factor);
      }
    }
    return loaded;
  }

  // Releases the stage after the loads that `loaded` depends on have returned (`zero_after`).
  __device__ __forceinline__ void give_back(int stage, uint32_t loaded) const {
    __syncwarp();  // the other lanes' loads, too
    release(stage + static_cast<int>(loaded & zero));
  }

  // Issues the four wgmmas of a unit: row slice `r`, all or half `half` of the columns, box `box` of k. They are one
  // group, or two groups of two if `halves`.
  __device__ __forceinline__ void multiply(int stage, int box, int r, int half, float (&part)[kPart],
                                           bool halves = false) {
    // Both descriptors are offsets from the descriptor of the shared memory's beginning, which takes fewer instructions
    // than making two.
    uint64_t const begin = swizzled_descriptor(Layout::a(shared, 0));
    uint64_t const a =
        behind(begin, first_row * 8 + stage * (Layout::kStageA / 16) + (box * Layout::kBoxA + r * 8192) / 16);
    uint64_t const b = behind(begin, (Stages * Layout::kStageA + box * Layout::kBoxB + half * kPart * 256) / 16 +
                                         first_column * 8 + stage * (Layout::kStageB / 16));
    hold(part);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      wgmma<A, B, kPart * 2>(part, behind(a, step * 2), behind(b, step * 2), step > 0);
      if (halves && step == 1) {
        wgmma_commit();
      }
    }
    wgmma_commit();
  }

  // Sets the factors of this thread's two rows.
  __device__ __forceinline__ void load_rows(int stage, Factors const& now, int box, int r, float (&factors)[2]) const {
    if constexpr (kA == Scales::kRows) {
      uint32_t const from = Layout::scales_a(shared, stage) + own_row + (box * TileM + r * 64) * 4;
      factors[0] = load_float(from);
      factors[1] = load_float(from + 32);
    } else {
      factors[0] = factors[1] = now.rows[r];
    }
  }

  // Address of the factors of this thread's columns for one 128 of k.
  __device__ __forceinline__ uint32_t columns_at(int stage, int box) const {
    return Layout::scales_b(shared, stage) + own_columns + box * TileN * 4;
  }

  // Loads the factors of columns that are kept in registers for all rows.
  __device__ __forceinline__ void load_columns(int stage, int box, float2 (&kept)[kMostKept]) const {
#pragma unroll
    for (int column_group = 0; column_group < kKept; ++column_group) {
      kept[column_group] = load_pair(columns_at(stage, box) + column_group * 32);
    }
  }

  // Adds a unit's products, times their factors, to `sum`. `split`: units of kUnit columns until the second block of
  // 128 columns begins. Returns a word that depends on the loads of the columns' factors.
  __device__ __forceinline__ uint32_t promote(int stage, Factors const& now, int box, int half, float const (&rows)[2],
                                              float2 const (&kept)[kMostKept], int split, float const (&part)[kPart],
                                              float (&sum)[kCount]) const {
    uint32_t const columns = columns_at(stage, box);
    uint32_t loaded = 0;
    int const first = half * kPart / 4;  // column group
    float of_block[kColumnBlocks][2], of_unit[2];
#pragma unroll
    for (int i = 0; i < kColumnBlocks; ++i) {
      of_block[i][0] = rows[0] * now.columns[i], of_block[i][1] = rows[1] * now.columns[i];
    }
#pragma unroll
    for (int column_group = 0; column_group < kPart / 4; ++column_group) {
      float factors[4];
      if constexpr (kB == Scales::kRows) {
        float2 const pair = column_group < kKept ? kept[column_group < kKept ? column_group : 0]
                                                 : load_pair(columns + (first + column_group) * 32);
        loaded |= __float_as_uint(pair.x);
        factors[0] = rows[0] * pair.x, factors[1] = rows[0] * pair.y;
        factors[2] = rows[1] * pair.x, factors[3] = rows[1] * pair.y;
      } else {
        if (column_group * 8 % kUnit == 0) {
          of_unit[0] = of_block[0][0], of_unit[1] = of_block[0][1];
#pragma unroll
          for (int i = 1; i < kColumnBlocks; ++i) {
            bool const beyond = (first + column_group) * 8 / kUnit >= split + (i - 1) * (kScaleBlock / kUnit);
            of_unit[0] = beyond ? of_block[i][0] : of_unit[0];
            of_unit[1] = beyond ? of_block[i][1] : of_unit[1];
          }
        }
        factors[0] = factors[1] = of_unit[0];
        factors[2] = factors[3] = of_unit[1];
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        sum[(first + column_group) * 4 + e] += factors[e] * part[column_group * 4 + e];
      }
    }
    return loaded;
  }
};

}  // namespace tilewright::sm90
