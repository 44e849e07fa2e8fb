// The host's description of matrices in global memory, and their TMA tensor maps.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "tilewright/launch.hpp"

namespace tilewright::sm90 {

struct Matrices {
  void const* address;
  int64_t row_bytes;
  int rows, batch;
  int64_t row_stride, batch_stride;  // bytes; a batch stride of 0 is one matrix that serves every batch
  bool mn_major = false;             // a row runs along m or n, not along k

  bool one() const { return batch == 1 || batch_stride == 0; }

  // Whether the rows of one matrix lie between the rows of another one.
  bool interleaved() const { return !one() && batch_stride < row_stride; }

  // TMA needs addresses and strides that are multiples of 16 bytes; extents are free.
  bool aligned() const {
    return reinterpret_cast<uintptr_t>(address) % 16 == 0 && row_stride % 16 == 0 && (one() || batch_stride % 16 == 0);
  }
};

// Encodes a map of `Rank` dimensions, the first of which is contiguous. `extents` and `box` count elements of `type`;
// `strides`, of the other dimensions, count bytes. On a miss, L2 fetches `promotion` bytes.
template <int Rank>
cudaError_t encode_boxes(CUtensorMap& map, CUtensorMapDataType type, void const* address,
                         cuuint64_t const (&extents)[Rank], cuuint64_t const (&strides)[Rank - 1],
                         cuuint32_t const (&box)[Rank], CUtensorMapSwizzle swizzle,
                         CUtensorMapL2promotion promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_256B) {
  static auto const encode = driver_function<decltype(&cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
  if (encode == nullptr) {
    return cudaErrorNotSupported;
  }
  cuuint32_t steps[Rank];
  for (cuuint32_t& step : steps) {
    step = 1;
  }
  CUresult const result = encode(&map, type, Rank, const_cast<void*>(address), extents, strides, box, steps,
                                 CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, promotion, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

// Encodes a map of matrices of elements of `bytes` bytes, whose boxes are `box_bytes` by `box_rows` rows of one matrix.
// With `tf32`, TMA rounds F32 to the nearest TF32; the tensor core itself would truncate.
inline cudaError_t encode_matrices(CUtensorMap& map, Matrices const& matrices, int box_bytes, int box_rows,
                                   CUtensorMapSwizzle swizzle, int bytes = 1, bool tf32 = false,
                                   CUtensorMapL2promotion promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_256B) {
  bool const broadcast = matrices.one();
  // A side of a box has at most 256 elements, so boxes whose rows have more bytes use words as elements.
  auto const type = tf32         ? CU_TENSOR_MAP_DATA_TYPE_TFLOAT32
                    : bytes == 4 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32
                                 : CU_TENSOR_MAP_DATA_TYPE_UINT8;
  return encode_boxes<3>(
      map, type, matrices.address,
      {cuuint64_t(matrices.row_bytes / bytes), cuuint64_t(matrices.rows), cuuint64_t(broadcast ? 1 : matrices.batch)},
      {cuuint64_t(matrices.row_stride),
       cuuint64_t(broadcast ? matrices.row_stride * matrices.rows : matrices.batch_stride)},
      {cuuint32_t(box_bytes / bytes), cuuint32_t(box_rows), 1}, swizzle, promotion);
}

}  // namespace tilewright::sm90
