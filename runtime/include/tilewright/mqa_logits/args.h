// Written by `python -m tilewright.declarations.headers` from the family's declaration. DO NOT EDIT.
//
// Arguments of an `mqa_logits` kernel, in the caller's terms:
//
//   out[i,j] = scale[j] * sum over h of weight[i,h] * relu(Q[i,h,:] . K[j,:]) where query i looks at key j
//
// An element of FP4 is multiplied by 2^(e - 127), where e is the exponent of its block of 32; scale is then 1.
// Ragged: start[i] <= j < end[i]. Paged: keys lie in pages of a cache, j < length[i]. A kernel of schedules
// writes where thread blocks of a paged one begin: a sequence (with indices: a token), and a tile of its keys.
#ifndef TILEWRIGHT_MQA_LOGITS_ARGS_H_
#define TILEWRIGHT_MQA_LOGITS_ARGS_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Parts of the ragged keys of a block of queries; the most multiprocessors to use.
typedef struct tilewright_mqa_logits_tactic {
  int32_t splits, sm_count;
} tilewright_mqa_logits_tactic;

typedef struct tilewright_mqa_logits_args {
  int32_t queries, keys, heads, head_dim, next_n;

  // [queries, heads, head_dim]; FP4 lies two to a byte, the even index in the low nibble
  const void* q;
  // [queries, heads]: for FP4, a word of exponents each; else null
  const int32_t* q_scale;
  // [keys, head_dim]: of ragged
  const void* kv;
  // [keys], ragged: f32, for FP4 a word of exponents
  const void* kv_scale;
  // [pages, bytes]: in each page all data, then all scales
  const void* kv_cache;
  // [queries, heads]
  const float* weights;
  // [queries]: of ragged
  const int32_t* starts;
  // [queries]: of ragged
  const int32_t* ends;
  // of contexts: [queries], or one for the last query of each sequence
  const int32_t* lengths;
  // [sequences, pages of a sequence]: where each page lies in the cache
  const int32_t* block_table;
  // [blocks + 1, 2]: the schedule of pages
  const int32_t* schedule;
  // [queries]: the sequence of each query; or null
  const int32_t* indices;
  // [queries, columns], or a schedule
  void* out;

  // Elements between neighbours along the dimension that is not contiguous.
  int64_t ld_q, ld_kv, ld_kv_cache, ld_weights, ld_block_table, ld_out;
  int64_t batch_stride_q, batch_stride_kv, batch_stride_kv_cache, batch_stride_weights, batch_stride_block_table,
      batch_stride_out;

  // columns of the logits
  int32_t width;
  // whether a row begins with its query's first key
  int32_t compressed;
  // whether logits of keys that no query looks at are -infinity
  int32_t clean;
  // whether there is a length for each query
  int32_t per_token;
  // keys of one
  int32_t page;
  // pages of the cache
  int32_t cache_pages;
  // pages of a sequence
  int32_t table_pages;
  // thread blocks that a schedule is for
  int32_t blocks;

  tilewright_mqa_logits_tactic tactic;
} tilewright_mqa_logits_args;

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // TILEWRIGHT_MQA_LOGITS_ARGS_H_
