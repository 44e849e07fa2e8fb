// What a consumer warpgroup does with stages of FP8 operands whose elements share scale factors along 128 of k:
//
//   D[64 * Rows, N] += sum over blocks of 128 k of SA * SB * (A B^T of the block)
//
// The tensor core sums a block, F32 registers the blocks with their factors. While one of two warpgroups does the
// latter, the other's instructions keep the tensor core at work.
#pragma once

#include <cstdint>
#include <numeric>

#include "tilewright/sm90/mainloop.hpp"
#include "tilewright/sm90/pipeline.hpp"
#include "tilewright/sm90/ptx.hpp"
#include "tilewright/sm90/scaled_layout.hpp"
#include "tilewright/sm90/wgmma.hpp"

namespace tilewright::sm90 {

__device__ __forceinline__ float2 load_pair(uint32_t address) {
  float2 value;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(value.x), "=f"(value.y) : "r"(address) : "memory");
  return value;
}

// Whether the barrier's phase is over, asked before the answer is needed, while other instructions go on; true where
// nobody `asks`, or the warp would wait for what may never come.
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

// The same value, by whole warps, that ptxas keeps: where registers are short it would work addresses out anew, between
// the wait for a stage and its first instruction (of 128x192, ten instructions, each of which waits for the one
// before).
__device__ __forceinline__ uint32_t kept(uint32_t value) {
  return __shfl_sync(~0u, value, static_cast<int>(threadIdx.x % 32));
}

// How a warpgroup's sums of a block of k become F32's: when its instructions are done; so too, but in turn with the
// other warpgroup, whose instructions are at work meanwhile; while its own next ones are at work, which takes another
// set of registers; or one half of the columns while the other half is at work.
enum class Promotion { kAfter, kInTurn, kOverlapped, kHalves };

template <class A, class B, class Layout, Scales kA, Scales kB, Promotion kPromotion, int TileM, int TileN, int Rows,
          int N, int Boxes, int Stages>
struct ScaledMainloop {
  static constexpr int kCount = N / 2;  // accumulators of 64 rows
  static constexpr int kHalves = kPromotion == Promotion::kHalves ? 2 : 1;
  static constexpr int kPart = kCount / kHalves;  // accumulators of one instruction
  static constexpr int kSums = 176;               // registers of a thread for sums, and factors that are kept
  static_assert(N % (8 * kHalves) == 0);
  static constexpr int kUnit = std::gcd(N / kHalves, kScaleBlock);  // columns that surely have one factor
  static constexpr int kColumnBlocks = kB == Scales::kBlocks ? Layout::kBlocks : 1;
  // Quads of columns whose own factors are loaded before a stage's instructions begin, and stay in registers for all of
  // the warpgroup's rows, as many as there is room for. Each load takes two of the shared memory's clocks and stands in
  // line behind what wgmma reads: loaded after the instructions, for each 64 rows, they were 26 % of a loop's cycles.
  static constexpr bool kKeeps = kA == Scales::kRows && kB == Scales::kRows &&
                                 (kPromotion == Promotion::kAfter || kPromotion == Promotion::kInTurn);
  static constexpr int kTaken = Rows * kCount + kPart, kFree = kKeeps && kSums > kTaken ? kSums - kTaken : 0;
  static constexpr int kKept = kFree / 2 < kPart / 4 ? kFree / 2 : kPart / 4, kMostKept = kKept > 0 ? kKept : 1;
  // Whether nothing of a stage's factors is read once its instructions are done.
  static constexpr bool kAllKept = kB != Scales::kRows || kKept == kPart / 4;

  uint32_t shared;
  int first_row, first_column;  // of this warpgroup in the tile
  Release release;
  Position<Stages> at{};
  // Where this thread's first row's factor, and its first columns', lie in those of a box.
  uint32_t own_row = kept((first_row + static_cast<int>(threadIdx.x) / 32 % 4 * 16 + threadIdx.x % 32 / 4) * 4);
  uint32_t own_columns = (first_column + threadIdx.x % 4 * 2) * 4;

  // The factors of blocks, of one 128 of k.
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

  // Adds `k_tiles` stages from where the ring stands; `column` is D's, of the first. `parts`: bits of the 64 rows that
  // are wanted.
  __device__ __forceinline__ void run(int k_tiles, int column, uint32_t parts, float (&sum)[Rows][kCount]) {
    int const split = (kScaleBlock - column % kScaleBlock) / kUnit;  // units of the first block of columns
    if constexpr (kPromotion == Promotion::kOverlapped || kPromotion == Promotion::kHalves) {
      overlapped(k_tiles, split, sum);
    } else {
      // In turn, both warpgroups go through as many units.
      if (Rows == 2 && kPromotion == Promotion::kAfter && (parts & 2) == 0) {
        one_by_one<1>(k_tiles, split, sum);
      } else {
        one_by_one<Rows>(k_tiles, split, sum);
      }
    }
  }

  // Stages of which this warpgroup has no rows. No instruction keeps its warps together here: one that is behind by all
  // stages of the ring, as its stores may make it, would take a stage's next data for those it waits for, and wait
  // forever.
  __device__ __forceinline__ void skip(int k_tiles) {
    for (int i = 0; i < k_tiles; ++i) {
      barrier_wait(Layout::full(shared, at.stage), at.phase);
      await_turn();
      pass_turn();
      meet(kSkip + static_cast<int>(threadIdx.x) / 128, 128);
      release(at.stage);
      at.next();
    }
  }

  // The first turn is the first warpgroup's. Once, by each.
  static __device__ __forceinline__ void start_turns(int warpgroup) {
    if (kPromotion == Promotion::kInTurn && warpgroup == 1) {
      let_go(kTurn, 256);
    }
  }

 private:
  // Barriers of the CTA by which two warpgroups take turns in issuing instructions, which are done in that order.
  static constexpr int kTurn = 5, kSkip = 7;  // and 6 and 8, of the second warpgroup

  static __device__ __forceinline__ void await_turn() {
    if constexpr (kPromotion == Promotion::kInTurn) {
      meet(kTurn + static_cast<int>(threadIdx.x) / 128, 256);
    }
  }
  static __device__ __forceinline__ void pass_turn() {
    if constexpr (kPromotion == Promotion::kInTurn) {
      let_go(kTurn + 1 - static_cast<int>(threadIdx.x) / 128, 256);
    }
  }

  // `kRows`: of 64, the first.
  template <int kRows>
  __device__ __forceinline__ void one_by_one(int k_tiles, int split, float (&sum)[Rows][kCount]) {
    float part[kPart];
    barrier_wait(Layout::full(shared, at.stage), at.phase);
    for (int left = k_tiles; left > 0; --left) {
      int const stage = at.stage;
      bool arrived = true;  // the next stage's data
#pragma unroll
      for (int box = 0; box < Boxes; ++box) {
        // Behind the instructions, these loads would wait for all that they read: 128x192 took 10 % longer.
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
            await_turn();
          }
          multiply(stage, box, r, 0, part, turn);
          if (turn) {
            wgmma_wait<1>();
            pass_turn();
          }
          wgmma_wait<0>();
          hold(part);
          if (kAllKept && last) {
            float const column = kB == Scales::kRows ? kept[kMostKept - 1].y : 0.0f;
            give_back(stage, loaded_by(now, factors) | __float_as_uint(column));
          }
          if (last) {
            at.next();
            arrived =
                barrier_passed(Layout::full(shared, at.stage), at.phase, left > 1);  // known when this is promoted
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

  // What is multiplied and what is promoted: units of 64 rows, all or half of the columns, and 128 of k, each in one of
  // two sets of registers.
  struct Parts {
    float sums[2][kPart];
    float rows[2][2];
    Factors factors[2];
    Position<Stages> ahead;  // the stage that is multiplied
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

  // Starts unit `unit` of the stage ahead.
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

  // Promotes the units of the stage, of which the first is at work in set kFirst; kLast: no stage follows.
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

  template <int kSet>
  __device__ __forceinline__ void finish(int unit, bool more, int split, Parts& parts, float (&sum)[kCount]) {
    if (more) {
      issue<1 - kSet>((unit + 1) % kUnits, parts);
      wgmma_wait<1>();
    } else {
      wgmma_wait<0>();
    }
    hold(parts.sums[kSet]);
    // Factors of the unit that was issued are of the next stage. The stage is given back after their loads, too, so
    // that no load is under way at an arrival, which the build can check. The wgmma that was waited for took longer.
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

  // A word that depends on the loads of `rows`, and of the factors of blocks of columns.
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

  // Gives the stage back after the loads of `loaded` have returned (`zero_after`).
  __device__ __forceinline__ void give_back(int stage, uint32_t loaded) const {
    __syncwarp();  // those of the other lanes, too
    release(stage + static_cast<int>(zero_after(loaded)));
  }

  // 128 of k of 64 rows, and of a half of the columns where those are halved: four instructions.
  __device__ __forceinline__ void multiply(int stage, int box, int r, int half, float (&part)[kPart],
                                           bool halves = false) {
    // Both are so many units behind the memory's beginning, which is less to wait for than two descriptors.
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

  // The factors of this thread's two rows.
  __device__ __forceinline__ void load_rows(int stage, Factors const& now, int box, int r, float (&factors)[2]) const {
    if constexpr (kA == Scales::kRows) {
      uint32_t const from = Layout::scales_a(shared, stage) + own_row + (box * TileM + r * 64) * 4;
      factors[0] = load_float(from);
      factors[1] = load_float(from + 32);
    } else {
      factors[0] = factors[1] = now.rows[r];
    }
  }

  // Where this thread's columns have their factors, of one 128 of k.
  __device__ __forceinline__ uint32_t columns_at(int stage, int box) const {
    return Layout::scales_b(shared, stage) + own_columns + box * TileN * 4;
  }

  __device__ __forceinline__ void load_columns(int stage, int box, float2 (&kept)[kMostKept]) const {
#pragma unroll
    for (int quad = 0; quad < kKept; ++quad) {
      kept[quad] = load_pair(columns_at(stage, box) + quad * 32);
    }
  }

  // Adds a unit's products, times their factors, to `sum`. Returns a word that depends on the loads of the columns'
  // factors.
  __device__ __forceinline__ uint32_t promote(int stage, Factors const& now, int box, int half, float const (&rows)[2],
                                              float2 const (&kept)[kMostKept], int split, float const (&part)[kPart],
                                              float (&sum)[kCount]) const {
    uint32_t const columns = columns_at(stage, box);
    uint32_t loaded = 0;
    int const first = half * kPart / 4;  // in quads of accumulators
    float of_block[kColumnBlocks][2], of_unit[2];
#pragma unroll
    for (int i = 0; i < kColumnBlocks; ++i) {
      of_block[i][0] = rows[0] * now.columns[i], of_block[i][1] = rows[1] * now.columns[i];
    }
#pragma unroll
    for (int quad = 0; quad < kPart / 4; ++quad) {
      float factors[4];
      if constexpr (kB == Scales::kRows) {
        float2 const pair = quad < kKept ? kept[quad < kKept ? quad : 0] : load_pair(columns + (first + quad) * 32);
        loaded |= __float_as_uint(pair.x);
        factors[0] = rows[0] * pair.x, factors[1] = rows[0] * pair.y;
        factors[2] = rows[1] * pair.x, factors[3] = rows[1] * pair.y;
      } else {
        if (quad * 8 % kUnit == 0) {
          of_unit[0] = of_block[0][0], of_unit[1] = of_block[0][1];
#pragma unroll
          for (int i = 1; i < kColumnBlocks; ++i) {
            bool const beyond = (first + quad) * 8 / kUnit >= split + (i - 1) * (kScaleBlock / kUnit);
            of_unit[0] = beyond ? of_block[i][0] : of_unit[0];
            of_unit[1] = beyond ? of_block[i][1] : of_unit[1];
          }
        }
        factors[0] = factors[1] = of_unit[0];
        factors[2] = factors[3] = of_unit[1];
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        sum[(first + quad) * 4 + e] += factors[e] * part[quad * 4 + e];
      }
    }
    return loaded;
  }
};

}  // namespace tilewright::sm90
