// Which tiles there are, and which blocks of them each thread block (CTA) computes.
#pragma once

#include <cstdint>

namespace tilewright::hc_prenorm {

// k has `blocks` blocks of 64, divided into `splits`, whose sums are stored separately. The first `larger_splits`
// splits have `blocks_per_split` + 1 blocks, the others `blocks_per_split`. A tile is some rows of one split.
struct Plan {
  int blocks, splits, blocks_per_split, larger_splits;
  int tiles, ctas;
  bool cut;  // CTAs have equally many blocks and may begin and end within a tile; otherwise they have whole tiles

  // The kernel that adds up cut tiles takes as long as a CTA needs for this many blocks.
  static constexpr int kAddingBlocks = 8;
  static constexpr int kLeastBlocks = 4;  // of a CTA

  Plan() = default;

  // A plan for a GPU with `sms` SMs. All tiles together have fewer than 2^31 blocks.
  Plan(int m_tiles, int k_blocks, int k_splits, int sms)
      : blocks(k_blocks), splits(k_splits), blocks_per_split(k_blocks / k_splits), larger_splits(k_blocks % k_splits) {
    tiles = m_tiles * splits;
    int const all = m_tiles * blocks, even = ceil_div(all, sms) > kLeastBlocks ? ceil_div(all, sms) : kLeastBlocks;
    int64_t const whole = int64_t{ceil_div(tiles, sms)} * blocks_of(0);  // of the busiest CTA
    cut = even + kAddingBlocks < whole;
    int const most = cut ? ceil_div(all, even) : tiles;
    ctas = most < sms ? most : sms;
  }

  __host__ __device__ int blocks_of(int split) const { return blocks_per_split + (split < larger_splits ? 1 : 0); }
  __host__ __device__ int first_block(int split) const {
    return split * blocks_per_split + (split < larger_splits ? split : larger_splits);
  }

 private:
  static int ceil_div(int x, int y) { return x / y + (x % y != 0 ? 1 : 0); }
};

// Where a CTA begins and the previous one ends: a tile, and a block within the tile's split.
struct Place {
  int tile, block = 0;

  __host__ __device__ Place(Plan const& plan, int cta) {
    int const rows = plan.tiles / plan.splits, work = plan.cut ? rows * plan.blocks : plan.tiles;
    int const share = work / plan.ctas, larger_shares = work % plan.ctas;
    int const begin = cta * share + (cta < larger_shares ? cta : larger_shares);
    if (!plan.cut || begin == work) {
      tile = plan.cut ? plan.tiles : begin;
      return;
    }
    int const row = begin / plan.blocks, rest = begin - row * plan.blocks;
    int const large = plan.larger_splits * (plan.blocks_per_split + 1);  // blocks of the splits that have one more
    int const split =
        rest < large ? rest / (plan.blocks_per_split + 1) : plan.larger_splits + (rest - large) / plan.blocks_per_split;
    tile = row * plan.splits + split;
    block = rest - plan.first_block(split);
  }

  __host__ __device__ bool within() const { return block > 0; }
};

// Calls `segment(tile, first, last)` for each tile of which the CTA computes blocks: blocks first to last - 1 of the
// tile's split.
template <class Segment>
__host__ __device__ __forceinline__ void for_each_segment(Plan const& plan, int cta, Segment const& segment) {
  Place const begin(plan, cta), end(plan, cta + 1);
  for (int tile = begin.tile; tile < end.tile || (tile == end.tile && end.within()); ++tile) {
    segment(tile, tile == begin.tile ? begin.block : 0,
            tile == end.tile ? end.block : plan.blocks_of(tile % plan.splits));
  }
}

// The CTAs that compute a tile, `first` to `last`, where the plan is cut. `first` begins with the tile or before it,
// the others within it.
struct Sharers {
  int first, last;

  __host__ __device__ Sharers(Plan const& plan, int tile) {
    int const split = tile % plan.splits;
    int const begin = tile / plan.splits * plan.blocks + plan.first_block(split), count = plan.blocks_of(split);
    first = owner(plan, begin);
    last = count > 0 ? owner(plan, begin + count - 1) : first;
  }

 private:
  // The CTA that computes a block; `block` counts the blocks of all tiles.
  static __host__ __device__ int owner(Plan const& plan, int block) {
    int const work = plan.tiles / plan.splits * plan.blocks, share = work / plan.ctas, larger_shares = work % plan.ctas;
    int const large = larger_shares * (share + 1);  // blocks of the CTAs that have one more
    return block < large ? block / (share + 1) : larger_shares + (block - large) / share;
  }
};

}  // namespace tilewright::hc_prenorm
