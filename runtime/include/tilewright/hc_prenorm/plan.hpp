// Which tiles there are, and which thread block (CTA) computes what of them.
#pragma once

#include <cstdint>

namespace tilewright::hc_prenorm {

// k has `blocks` of 64, in `splits` that are written each by itself: the first `more` of them have each + 1 blocks, the
// others `each`. A tile is some rows, and a split.
struct Plan {
  int blocks, splits, each, more;
  int tiles, ctas;
  bool cut;  // CTAs have as many blocks, and begin and end within tiles; else they have whole tiles

  // Adding up what is cut takes about as long as a CTA takes for so many blocks; and a CTA has so many at least.
  static constexpr int kAddingBlocks = 8, kLeastBlocks = 4;

  Plan() = default;

  // For a GPU of so many SMs. There are fewer than 2^31 blocks in all.
  Plan(int m_tiles, int k_blocks, int k_splits, int sms)
      : blocks(k_blocks), splits(k_splits), each(k_blocks / k_splits), more(k_blocks % k_splits) {
    tiles = m_tiles * splits;
    int const all = m_tiles * blocks, even = ceil_div(all, sms) > kLeastBlocks ? ceil_div(all, sms) : kLeastBlocks;
    int64_t const whole = int64_t{ceil_div(tiles, sms)} * blocks_of(0);  // of the busiest CTA
    cut = even + kAddingBlocks < whole;
    int const most = cut ? ceil_div(all, even) : tiles;
    ctas = most < sms ? most : sms;
  }

  __host__ __device__ int blocks_of(int split) const { return each + (split < more ? 1 : 0); }
  __host__ __device__ int first_block(int split) const { return split * each + (split < more ? split : more); }

 private:
  static int ceil_div(int x, int y) { return x / y + (x % y != 0 ? 1 : 0); }
};

// Where a CTA begins, and the one before it ends: a tile, and a block within its split.
struct Place {
  int tile, block = 0;

  __host__ __device__ Place(Plan const& plan, int cta) {
    int const rows = plan.tiles / plan.splits, work = plan.cut ? rows * plan.blocks : plan.tiles;
    int const share = work / plan.ctas, more = work % plan.ctas;
    int const begin = cta * share + (cta < more ? cta : more);
    if (!plan.cut || begin == work) {
      tile = plan.cut ? plan.tiles : begin;
      return;
    }
    int const row = begin / plan.blocks, rest = begin - row * plan.blocks;
    int const large = plan.more * (plan.each + 1);  // blocks of the splits that have one more
    int const split = rest < large ? rest / (plan.each + 1) : plan.more + (rest - large) / plan.each;
    tile = row * plan.splits + split;
    block = rest - plan.first_block(split);
  }

  __host__ __device__ bool within() const { return block > 0; }
};

// Calls `segment(tile, first, last)` for what of each tile is the CTA's, in blocks of the tile's split.
template <class Segment>
__host__ __device__ __forceinline__ void for_each_segment(Plan const& plan, int cta, Segment const& segment) {
  Place const begin(plan, cta), end(plan, cta + 1);
  for (int tile = begin.tile; tile < end.tile || (tile == end.tile && end.within()); ++tile) {
    segment(tile, tile == begin.tile ? begin.block : 0,
            tile == end.tile ? end.block : plan.blocks_of(tile % plan.splits));
  }
}

// The CTAs that compute a tile: `first` begins with it, or before it, the others within it. Of plans that are cut.
struct Sharers {
  int first, last;

  __host__ __device__ Sharers(Plan const& plan, int tile) {
    int const split = tile % plan.splits;
    int const begin = tile / plan.splits * plan.blocks + plan.first_block(split), count = plan.blocks_of(split);
    first = owner(plan, begin);
    last = count > 0 ? owner(plan, begin + count - 1) : first;
  }

 private:
  // Whose a block is, of all tiles' blocks.
  static __host__ __device__ int owner(Plan const& plan, int block) {
    int const work = plan.tiles / plan.splits * plan.blocks, share = work / plan.ctas, more = work % plan.ctas;
    int const large = more * (share + 1);  // blocks of the CTAs that have one more
    return block < large ? block / (share + 1) : more + (block - large) / share;
  }
};

}  // namespace tilewright::hc_prenorm
