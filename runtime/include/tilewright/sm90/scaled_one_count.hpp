// The main loop of scaled_mainloop.hpp for Promotion::kOverlapped with one position in the ring instead of two: the
// stage that is released is always the one before it.
#pragma once

#include <cstdint>

#include "tilewright/sm90/mainloop.hpp"
#include "tilewright/sm90/ptx.hpp"
#include "tilewright/sm90/scaled_layout.hpp"
#include "tilewright/sm90/scaled_mainloop.hpp"
#include "tilewright/sm90/wgmma.hpp"

namespace tilewright::sm90 {

// `Element`, as a kernel's A whose main loop keeps one position: the mark selects the specialisation below.
template <class Element>
struct OneCount : Element {};

// For warpgroups of 64 rows with factors of rows, and columns with factors of blocks.
template <class A, class B, class Layout, int TileM, int TileN, int N, int Boxes, int Stages>
struct ScaledMainloop<OneCount<A>, B, Layout, Scales::kRows, Scales::kBlocks, Promotion::kOverlapped, TileM, TileN, 1,
                      N, Boxes, Stages> : ScaledMainloop<A, B, Layout, Scales::kRows, Scales::kBlocks,
                                                         Promotion::kOverlapped, TileM, TileN, 1, N, Boxes, Stages> {
  using Base = ScaledMainloop<A, B, Layout, Scales::kRows, Scales::kBlocks, Promotion::kOverlapped, TileM, TileN, 1, N,
                              Boxes, Stages>;
  static constexpr int kCount = Base::kCount, kUnit = Base::kUnit, kBlocks = Layout::kBlocks;

  // As Base::run.
  __device__ __forceinline__ void run(int k_tiles, int column, uint32_t, float (&sum)[1][kCount]) {
    int const split = (kScaleBlock - column % kScaleBlock) / kUnit;  // units of the first block of columns
    Product products[2];
    barrier_wait(Layout::full(this->shared, this->at.stage), this->at.phase);
    issue(0, products[0]);
    constexpr int kSecond = Boxes % 2;  // which of the products a second stage begins with
#pragma unroll 1
    for (; k_tiles > 2; k_tiles -= 2) {  // two stages: in a loop over one, ptxas would serialise the wgmmas (C7514)
      run_stage<0, false>(split, products, sum[0]);
      run_stage<kSecond, false>(split, products, sum[0]);
    }
    if (k_tiles == 2) {
      run_stage<0, false>(split, products, sum[0]);
      run_stage<kSecond, true>(split, products, sum[0]);
    } else {
      run_stage<0, true>(split, products, sum[0]);
    }
  }

 private:
  // The sums of 128 of k, as the tensor core adds them up, and their factors.
  struct Product {
    float sums[kCount], rows[2], columns[kBlocks];

    // A word that depends on the loads of the factors.
    __device__ __forceinline__ uint32_t loaded() const {
      uint32_t word = __float_as_uint(rows[0]) | __float_as_uint(rows[1]);
#pragma unroll
      for (float const factor : columns) {
        word |= __float_as_uint(factor);
      }
      return word;
    }
  };

  // Loads the factors of box `box` of the stage at `at`, and issues its four wgmmas.
  __device__ __forceinline__ void issue(int box, Product& product) {
    int const stage = this->at.stage;
    uint32_t const blocks = Layout::blocks(this->shared, stage, box);
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      product.columns[i] = load_float(blocks + i * 4);
    }
    uint32_t const own_rows = Layout::scales_a(this->shared, stage) + this->own_row + box * TileM * 4;
    product.rows[0] = load_float(own_rows), product.rows[1] = load_float(own_rows + 32);

    uint64_t const begin = swizzled_descriptor(Layout::a(this->shared, 0));
    uint64_t const a = behind(begin, this->first_row * 8 + stage * (Layout::kStageA / 16) + box * (Layout::kBoxA / 16));
    uint64_t const b = behind(begin, (Stages * Layout::kStageA + box * Layout::kBoxB) / 16 + this->first_column * 8 +
                                         stage * (Layout::kStageB / 16));
    hold(product.sums);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      wgmma<A, B, N>(product.sums, behind(a, step * 2), behind(b, step * 2), step > 0);
    }
    wgmma_commit();
  }

  // Promotes the products of a stage, each while the next product's wgmmas run. The wgmmas of the first one are issued
  // already, into `products[kFirst]`. `kLast`: no stage follows.
  template <int kFirst, bool kLast>
  __device__ __forceinline__ void run_stage(int split, Product (&products)[2], float (&sum)[kCount]) {
    int const stage = this->at.stage;
#pragma unroll
    for (int box = 0; box < Boxes; ++box) {
      bool const last = box == Boxes - 1;
      if (last) {
        this->at.next();
        if (!kLast) {
          barrier_wait(Layout::full(this->shared, this->at.stage), this->at.phase);
        }
      }
      Product &product = products[(kFirst + box) % 2], &next = products[(kFirst + box + 1) % 2];
      uint32_t loaded = 0;
      if (!last || !kLast) {
        issue((box + 1) % Boxes, next);
        wgmma_wait<1>();
        // The stage is released after the loads of the next product's factors, too, so that no load at all is in flight
        // at an arrival, which the build can check. That costs no time, because the wgmma above took longer.
        loaded = next.loaded();
      } else {
        wgmma_wait<0>();
      }
      hold(product.sums);
      if (last) {
        __syncwarp();  // the other lanes' loads, too
        this->release(stage + static_cast<int>((loaded | product.loaded()) & this->zero));
      }
      promote(product, split, sum);
    }
  }

  // Adds products, times their factors, to `sum`.
  static __device__ __forceinline__ void promote(Product const& product, int split, float (&sum)[kCount]) {
    float of_unit[2];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {  // a column group: two columns of the thread's upper row, two of the lower one
      int const column = i / 4 * 8;
      if (column % kUnit == 0 && i % 4 == 0) {
        float of_columns = product.columns[0];
#pragma unroll
        for (int block = 1; block < kBlocks; ++block) {
          bool const beyond = column / kUnit >= split + (block - 1) * (kScaleBlock / kUnit);
          of_columns = beyond ? product.columns[block] : of_columns;
        }
        of_unit[0] = product.rows[0] * of_columns, of_unit[1] = product.rows[1] * of_columns;
      }
      sum[i] += of_unit[i / 2 % 2] * product.sums[i];
    }
  }
};

}  // namespace tilewright::sm90
