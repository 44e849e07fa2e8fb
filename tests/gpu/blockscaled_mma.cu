// Runs the `blockscaled_gemm` kernels of mma.sync, compiled for sm_90a, where the instruction is computed in software
// from its PTX definition (sm120/mma_definition.hpp): TMA, mbarriers, ldmatrix and the epilogue are the GPU's own. See
// test_blockscaled_mma_on_gpu.py. Products of small numbers are exact, so D is compared to the bit, and so is what lies
// around D.
#include <cuda_fp16.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <vector>

#include "tilewright/blockscaled_gemm/mma.hpp"
#include "tilewright/blockscaled_gemm/mma_host.hpp"

namespace tilewright::blockscaled_gemm::mma {

// The instruction in software, one function for all of a kernel's products: inlined, they would be a million
// instructions.
template <class Form>
__device__ __noinline__ void call_software(float (&d)[4], uint32_t const (&a)[4], uint32_t const (&b)[2],
                                           uint32_t a_scales, uint32_t b_scales, sm120::ScaleSource source) {
  Form::software(d, a, b, a_scales, b_scales, source);
}
template <class Form>
struct Software {
  static constexpr int kBlocks = Form::kBlocks;
  template <int kByteA, int kByteB, int kThreadA, int kThreadB>
  static __device__ __forceinline__ void mma(float (&d)[4], uint32_t const (&a)[4], uint32_t const (&b)[2],
                                             uint32_t a_scales, uint32_t b_scales) {
    static_assert(Form::takes(kByteA, kByteB, kThreadA, kThreadB));
    call_software<Form>(d, a, b, a_scales, b_scales, {kByteA, kByteB, kThreadA, kThreadB});
  }
};

// A format whose products are computed so.
template <class Format>
struct Soft : Format {};
template <class A, class B>
struct MmaOf<Soft<A>, Soft<B>> {
  using Type = Software<typename MmaOf<A, B>::Type>;
};

}  // namespace tilewright::blockscaled_gemm::mma

namespace {

using namespace tilewright;
namespace mma = blockscaled_gemm::mma;
using mma::Mxfp4;
using mma::Mxfp8;
using mma::Mxfp8E5m2;
using mma::Nvfp4;
using sm90::Bf16;
using sm90::F16;
using sm90::F32;

template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads) multiply(__grid_constant__ typename Kernel::Params const params) {
  extern __shared__ __align__(1024) char memory[];
  Kernel{}(params, memory);
}
template <class Kernel>
__global__ void __launch_bounds__(sm90::kCombineThreads) combine(__grid_constant__ sm90::CombineParams const params) {
  sm90::Combine<Kernel>{}(params);
}
template <class Kernel_>
struct Traits {
  using Kernel = Kernel_;
  static constexpr bool kPdl = true;
  static void const* entry() { return reinterpret_cast<void const*>(&multiply<Kernel>); }
  static void const* combining_entry() { return reinterpret_cast<void const*>(&combine<Kernel>); }
};

void check(cudaError_t error) {
  if (error != cudaSuccess) {
    std::printf("CUDA: %s\n", cudaGetErrorString(error));
    std::exit(1);
  }
}

unsigned chance = 1;
unsigned random(unsigned below) {
  chance = chance * 1664525u + 1013904223u;
  return (chance >> 8) % below;
}

template <class T>
struct Managed {
  T* data;
  size_t size;
  explicit Managed(size_t count, int byte = 0) : size(count) {
    check(cudaMallocManaged(&data, count * sizeof(T)));
    std::memset(data, byte, count * sizeof(T));
  }
  Managed(Managed const&) = delete;
  ~Managed() { cudaFree(data); }
};

// Random elements with scale factors in the 128x4 layout, as args.h says. `values`: their products, [batch, rows, k].
template <class Format>
struct Operand {
  using Code = sm120::Code<typename Format::Element>;
  static constexpr int kBits = Format::kBits, kBlock = Format::kBlock;
  int rows, k, batch, atoms;
  int64_t stride;
  Managed<uint8_t> data, scales;
  Managed<float> values;

  Operand(int high, int wide, int matrices)
      : rows(high),
        k(wide),
        batch(matrices),
        atoms(((wide + kBlock - 1) / kBlock + 3) / 4),
        stride((wide + 128 / kBits - 1) / (128 / kBits) * (128 / kBits) + 128 / kBits),
        data(stride * high * matrices * kBits / 8, 0xFF),
        scales(size_t((high + 127) / 128 * matrices) * atoms * 512),
        values(size_t(high) * wide * matrices) {
    constexpr uint8_t kE4m3[] = {0x28, 0x30, 0x34, 0x38, 0x40}, kE8[] = {125, 126, 127, 128};
    for (int matrix = 0; matrix < batch; ++matrix) {
      for (int row = 0; row < rows; ++row) {
        double scale = 0;
        for (int x = 0; x < k; ++x) {
          int const column = x / kBlock;
          if (x % kBlock == 0) {
            uint8_t const bits = kBlock == 16 ? kE4m3[random(5)] : kE8[random(4)];
            scale = kBlock == 16 ? sm120::Code<sm120::Ue4m3>::value(bits) : sm120::Code<sm120::Ue8m0>::value(bits);
            int64_t const block = int64_t(matrix) * ((rows + 127) / 128) + row / 128;
            scales.data[(block * atoms + column / 4) * 512 + row % 32 * 16 + row % 128 / 32 * 4 + column % 4] = bits;
          }
          unsigned bits = random(16);
          if (kBits == 8) {
            int const number = int(random(7)) - 3;
            for (bits = 0; Code::value(bits) != number; ++bits) {
            }
          }
          int64_t const element = (int64_t(matrix) * rows + row) * stride + x;
          uint8_t& byte = data.data[element * kBits / 8];
          byte = kBits == 8 ? bits : element % 2 ? (byte & 15) | bits << 4 : (byte & 0xF0) | bits;
          values.data[(int64_t(matrix) * rows + row) * k + x] = float(Code::value(bits) * scale);
        }
      }
    }
  }
};

// D in F32, by one thread for each element.
__global__ void reference(float const* a, float const* b, float* d, int m, int n, int k) {
  int const column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y, matrix = blockIdx.z;
  if (column < n) {
    double sum = 0;
    for (int x = 0; x < k; ++x) {
      sum += double(a[(int64_t(matrix) * m + row) * k + x]) * b[(int64_t(matrix) * n + column) * k + x];
    }
    d[(int64_t(matrix) * m + row) * n + column] = float(sum);
  }
}

uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}
// The bits of a D, rounded to nearest even.
template <class D>
uint32_t stored(float value) {
  if (std::is_same<D, Bf16>::value) {
    uint32_t const bits = bits_of(value);
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
  }
  if (std::is_same<D, F16>::value) {
    __half const half = __float2half_rn(value);
    uint16_t bits;
    std::memcpy(&bits, &half, 2);
    return bits;
  }
  return bits_of(value);
}

template <class A, class B, class D, int TileM, int TileN, int TileK, int Stages, bool kSwapped = false,
          int kStoreBuffers = 1>
int product(char const* name, int m, int n, int k, int batch = 1, int splits = 1, bool with_c = false) {
  using OwnA = mma::Soft<std::conditional_t<kSwapped, B, A>>;
  using OwnB = mma::Soft<std::conditional_t<kSwapped, A, B>>;
  using Kernel = mma::Kernel<OwnA, OwnB, D, TileM, TileN, TileK, Stages, kSwapped, kStoreBuffers, true>;
  using Calls = mma::Calls<Traits<Kernel>>;
  using Stored = std::conditional_t<D::kBytes == 2, uint16_t, uint32_t>;
  Operand<A> a(m, k, batch);
  Operand<B> b(n, k, batch);
  int64_t const stride = (n + 7) / 8 * 8 + 8;
  constexpr int kPoison = 0xA5;
  Managed<Stored> d(stride * m * batch + 64, kPoison), c(stride * m * batch);
  Managed<float> sums(size_t(m) * n * batch), alpha(1);
  alpha.data[0] = 0.5f;
  for (size_t i = 0; i < c.size; ++i) {
    c.data[i] = static_cast<Stored>(stored<D>(float(int(i % 11)) - 5));
  }
  tilewright_blockscaled_gemm_args args{};
  args.m = m, args.n = n, args.k = k, args.batch = batch;
  args.a = a.data.data, args.b = b.data.data, args.d = d.data, args.c = with_c ? c.data : nullptr;
  args.scale_a = a.scales.data, args.scale_b = b.scales.data;
  args.alpha = alpha.data, args.beta = with_c ? -3.0f : 0.0f;
  args.ld_a = a.stride, args.ld_b = b.stride, args.ld_c = args.ld_d = stride;
  args.batch_stride_a = a.stride * m, args.batch_stride_b = b.stride * n;
  args.batch_stride_c = args.batch_stride_d = stride * m;
  args.tactic = {TILEWRIGHT_RASTER_HEURISTIC,
                 2,
                 splits > 1 ? TILEWRIGHT_DECOMPOSE_SPLIT_K : TILEWRIGHT_DECOMPOSE_HEURISTIC,
                 splits,
                 0,
                 1,
                 1,
                 0,
                 0,
                 INT32_MAX};
  if (Calls::can_implement(&args) != TILEWRIGHT_OK) {
    std::printf("%s: refused\n", name);
    return 1;
  }
  Managed<uint8_t> workspace(Calls::workspace_bytes(&args) + 16, 0xFF);
  reference<<<dim3((n + 127) / 128, m, batch), 128>>>(a.values.data, b.values.data, sums.data, m, n, k);
  check(cudaDeviceSynchronize());
  long wrong = 0, around = 0;
  for (int run = 0; run < 3; ++run) {  // the same bits every time
    std::memset(d.data, kPoison, d.size * sizeof(Stored));
    int32_t const status = Calls::launch(&args, workspace.data, nullptr);
    if (status != TILEWRIGHT_OK) {
      std::printf("%s: not launched: %d\n", name, status);
      return 1;
    }
    check(cudaDeviceSynchronize());
    Stored poison;
    std::memset(&poison, kPoison, sizeof poison);
    for (int64_t i = 0; i < int64_t(d.size); ++i) {
      int64_t const row = i / stride, column = i % stride;
      if (row < int64_t(m) * batch && column < n) {
        float const added = with_c ? -3.0f * (float(int(i % 11)) - 5) : 0.0f;
        wrong += d.data[i] != static_cast<Stored>(stored<D>(sums.data[row * n + column] * 0.5f + added));
      } else {
        around += d.data[i] != poison;
      }
    }
  }
  std::printf("%s %dx%dx%d batch %d splits %d: %ld wrong elements, %ld changed around D\n", name, m, n, k, batch,
              splits, wrong, around);
  return wrong != 0 || around != 0;
}

}  // namespace

// PART: which products are compiled, so that several compilers may divide them; all if it is not defined.
int main() {
  int bad = 0;
#if !defined(PART) || PART == 0
  bad += product<Nvfp4, Nvfp4, Bf16, 128, 128, 256, 2>("nvfp4_128x128x256", 200, 264, 528, 2);
  bad += product<Nvfp4, Nvfp4, Bf16, 128, 128, 256, 2>("nvfp4_128x128x256_c", 131, 136, 2064, 1, 1, true);
  bad += product<Nvfp4, Nvfp4, Bf16, 256, 128, 128, 3>("nvfp4_256x128x128", 300, 264, 976);
#endif
#if !defined(PART) || PART == 1
  bad += product<Nvfp4, Nvfp4, F16, 128, 256, 128, 2>("nvfp4_128x256x128", 140, 520, 976);
  bad += product<Nvfp4, Nvfp4, Bf16, 128, 16, 256, 4, true>("nvfp4_128x16x256_swap", 13, 520, 2064, 1, 3);
  bad += product<Nvfp4, Nvfp4, F32, 64, 8, 512, 3, true>("nvfp4_64x8x512_swap", 141, 520, 2064);
#endif
#if !defined(PART) || PART == 2
  bad += product<Nvfp4, Nvfp4, Bf16, 128, 32, 256, 3, true>("nvfp4_128x32x256_swap", 45, 5120, 2560);
  bad += product<Nvfp4, Nvfp4, Bf16, 128, 64, 256, 2, true>("nvfp4_128x64x256_swap", 141, 1032, 1040);
  bad += product<Mxfp4, Mxfp4, Bf16, 128, 128, 128, 3>("mxfp4_128x128x128", 200, 264, 992, 2);
#endif
#if !defined(PART) || PART == 3
  bad += product<Mxfp8, Mxfp8, Bf16, 128, 128, 128, 2>("mxfp8_128x128x128", 200, 264, 1008, 2);
  bad += product<Mxfp8, Mxfp8E5m2, Bf16, 64, 64, 128, 3>("mxfp8_64x64x128", 131, 1032, 1008, 1, 2);
  bad += product<Mxfp8, Mxfp8, Bf16, 64, 8, 256, 3, true>("mxfp8_64x8x256_swap", 7, 1032, 2032);
#endif
#if !defined(PART) || PART == 4
  bad += product<Mxfp8, Mxfp4, Bf16, 128, 128, 128, 2>("mixed_128x128x128", 200, 264, 992, 2);
  bad += product<Mxfp8, Mxfp4, Bf16, 128, 16, 128, 4, true>("mixed_128x16x128_swap", 45, 520, 2016, 1, 2);
#endif
  std::printf("%d products are wrong\n", bad);
  return bad != 0;
}
