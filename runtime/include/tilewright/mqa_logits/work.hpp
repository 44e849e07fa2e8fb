// Which queries and keys a thread block computes: a range of keys for each query (ragged), or the pages of a cache
// (paged). An item is a block of queries with some of the keys that they look at, in tiles.
#pragma once

#include <cstdint>

#include "tilewright/sm90/ptx.hpp"

namespace tilewright::mqa_logits {

constexpr int kTile = 64;      // keys of a tile
constexpr int kSplit = kTile;  // keys of a schedule's unit, so that thread blocks differ by at most a tile
constexpr int kGroup = 4;      // tokens of a sequence that are computed together in a batch of variable length

struct Range {
  int start, end;  // keys
};

struct Item {
  int query;       // the block's first query
  Range mine;      // of query + lane % Queries; empty if the block does not have that query
  int key, tiles;  // the first key, and how many tiles start there
  int table_row;   // row of the page table
};

// The logits that both forms write. Logit (query, key) goes to row `query`, column `key`, or key - start if rows are
// compressed.
struct Logits {
  void* out;
  int64_t ld;
  int rows, width;
  bool clean;  // logits of keys outside of a query's range become -infinity
};

struct Ragged {
  static constexpr bool kPaged = false;

  int32_t const* starts;  // [queries]
  int32_t const* ends;
  int queries, keys;
  int parts;  // into which the keys of a block of queries are divided
  bool compressed;

  __device__ __forceinline__ Range range(Logits const& logits, int query) const {
    query = min(query, queries - 1);
    int const start = min(max(starts[query], 0), keys);
    int const end = min(ends[query], compressed ? min(keys, start + logits.width) : keys);
    return {start, max(start, end)};
  }

  __device__ __forceinline__ int origin(Range const& range) const { return compressed ? range.start : 0; }

  // Every other round runs backwards, so that each thread block gets long and short ranges where ranges grow with the
  // query, as under a causal mask.
  static __device__ __forceinline__ int index(int round) {
    return round * gridDim.x + (round % 2 == 0 ? blockIdx.x : gridDim.x - 1 - blockIdx.x);
  }

  template <int Queries, int Tile, class Body>
  __device__ __forceinline__ void for_each(Logits const& logits, Body const& body) const {
    int const items = (queries + Queries - 1) / Queries * parts;
    int const within = threadIdx.x % 32 % Queries;
    int at = index(0);
    Range ahead = at < items ? range(logits, at / parts * Queries + within) : Range{};
    for (int round = 1; at < items; ++round) {
      Item item{at / parts * Queries, ahead};
      int const part = at % parts;
      if (item.query + within >= queries) {
        item.mine.end = item.mine.start;
      }
      at = index(round);
      if (at < items) {
        ahead = range(logits, at / parts * Queries + within);  // loads while this item is computed
      }
      bool const empty = item.mine.start >= item.mine.end;
      // At a multiple of 8, so that rows of logits are written in whole sectors of 32 bytes.
      int const start = __reduce_min_sync(~0u, empty ? keys : item.mine.start) / 8 * 8;
      int const end = __reduce_max_sync(~0u, empty ? 0 : item.mine.end);
      int const tiles = max(0, end - start + Tile - 1) / Tile;
      int const first = tiles * part / parts;
      item.key = start + first * Tile;
      item.tiles = tiles * (part + 1) / parts - first;
      if (item.tiles > 0) {
        body(item);
      }
    }
  }
};

struct Paged {
  static constexpr bool kPaged = true;

  int32_t const* lengths;  // [tokens], or [sequences]: the length for the sequence's last token
  int32_t const* indices;  // [tokens]: a token's sequence; tokens of a sequence are neighbours. Or null
  int2 const* schedule;    // [thread blocks + 1]: sequence (or token) and split at which a thread block begins
  int32_t const* table;    // [sequences, pages]
  int64_t ld_table;
  int tokens, next_n, pages, page;  // page: keys
  bool per_token;

  __device__ __forceinline__ Range range(Logits const& logits, int token) const {
    token = min(token, tokens - 1);
    int const length = per_token ? lengths[token] : lengths[token / next_n] - next_n + 1 + token % next_n;
    return {0, max(0, min(length, min(logits.width, pages * page)))};
  }

  static __device__ __forceinline__ int origin(Range const&) { return 0; }

  template <int Queries, int Tile, class Body>
  __device__ __forceinline__ void for_each(Logits const& logits, Body const& body) const {
    int const lane = threadIdx.x % 32;
    int2 const first = schedule[blockIdx.x], end = schedule[blockIdx.x + 1];
    for (int group = first.x, split = first.y; group < end.x || (group == end.x && split < end.y); split = 0) {
      int const token = indices != nullptr ? group : group * next_n;
      int count = next_n;
      if (indices != nullptr) {
        bool const same = lane < kGroup && group + lane < tokens && indices[group + lane] == indices[group];
        count = __ffs(~__ballot_sync(~0u, same)) - 1;
      }
      int const length = lane < count ? range(logits, token + lane).end : 0;
      int const longest = __reduce_max_sync(~0u, length);
      int const last = group == end.x ? min(end.y * kSplit, longest) : longest;
      Item item{};
      item.table_row = group;
      item.key = split * kSplit;
      item.tiles = max(0, last - item.key + Tile - 1) / Tile;
      for (int query = 0; query < count && item.tiles > 0; query += Queries) {
        item.query = token + query;
        // The range is empty for queries beyond `count`, which is at most 32. A tile that is longer than a split may
        // hold keys of the next thread block.
        item.mine = {0, __shfl_sync(~0u, min(length, last), query + lane % Queries)};
        body(item);
      }
      group += indices != nullptr ? count : 1;
    }
  }
};

// The pages of an item, in order. A warp holds the next 32 to 64 entries of the item's row of the page table.
class Pages {
 public:
  __device__ __forceinline__ Pages(Paged const& work, int row, int first)
      : row_(work.table + row * work.ld_table), pages_(work.pages), base_(first) {
    now_ = load(first), next_ = load(first + 32);
  }

  __device__ __forceinline__ int at(int page) {
    if (page >= base_ + 32) {
      base_ += 32, now_ = next_, next_ = load(base_ + 32);
    }
    return __shfl_sync(~0u, now_, page - base_);
  }

 private:
  __device__ __forceinline__ int load(int page) const {
    page += threadIdx.x % 32;
    return page < pages_ ? row_[page] : -1;
  }

  int32_t const* row_;
  int pages_, base_, now_, next_;
};

}  // namespace tilewright::mqa_logits
