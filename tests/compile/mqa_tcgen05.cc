// Runs the kernel of sm_100 on the host, all threads of it, with the tensor core emulated: see test_mqa_tcgen05.py.
#include "host_gpu.hpp"

#include "tilewright/mqa_logits/mqa_logits.hpp"
#include "tilewright/mqa_logits/tensor_kernel.hpp"

#include <deque>

using namespace tilewright::mqa_logits;
using host::fault;
using host::random;

namespace {

// The emulated tensor core, told by one thread. Where copies are late, so is it: PTX ISA, "Implicitly pipelined
// instructions": products and commits are done in their order, a copy to tensor memory at any time before the product
// that follows it, also while earlier ones are at work.
struct Told {
  bool copies;
  std::function<void()> run;
};
std::deque<Told> told;

struct Beside : tcgen05::Emulated {
  using Emulated::Emulated;
  static constexpr int kArrivals = 1;
  static bool issues_instructions() { return threadIdx.x % 32 == 0; }

  void copy_scales(uint32_t to, uint64_t from) const {
    tell(true, [=] { as_warp([&] { Emulated::copy_scales(to, from); }); });
  }
  template <class... Scales>
  void multiply(uint32_t products, uint64_t a, uint64_t b, uint32_t instruction, bool add, Scales... scales) const {
    tell(false, [=] { as_warp([&] { Emulated::multiply(products, a, b, instruction, add, scales...); }); });
  }
  void commit(uint32_t barrier) const {
    tell(false, [=] { tilewright::sm90::barrier_arrive(barrier); });
  }

  static bool go_on() {
    if (told.empty()) {
      return false;
    }
    size_t which = random(unsigned(told.size()));
    which = told[which].copies ? which : 0;
    Told const one = told[which];
    told.erase(told.begin() + long(which));
    one.run();
    return true;
  }

 private:
  static void tell(bool copies, std::function<void()> const& run) {
    host::late ? told.push_back({copies, run}) : run();
  }

  template <class Body>
  static void as_warp(Body const& body) {
    int const mine = threadIdx.x;
    alone = true;
    for (int lane = 0; lane < 32; ++lane) {
      threadIdx.x = lane;
      body();
    }
    alone = false, threadIdx.x = mine;
  }
};

template <int HeadDim>
using BesideFp8 = TensorFp8<Beside, HeadDim>;
template <int HeadDim>
using BesideFp4 = TensorFp4<Beside, HeadDim>;

constexpr float kPoison = 7.5f;

double e4m3(unsigned byte) {
  int const exponent = byte >> 3 & 15, mantissa = byte & 7;
  double const size = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return byte & 128 ? -size : size;
}

double e2m1(unsigned nibble) {
  double const sizes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  return nibble & 8 ? -sizes[nibble & 7] : sizes[nibble & 7];
}

// Rows of FP8 or FP4: elements, and a scale (of FP8 keys) or a word of exponents each.
struct Rows {
  int dim;
  bool fp4;
  std::vector<uint8_t> data;
  std::vector<uint32_t> scales;

  Rows(int count, int given, bool is_fp4) : dim(given), fp4(is_fp4), scales(count) {
    for (int i = 0; i < count * bytes(); ++i) {
      unsigned const byte = random(256);
      data.push_back(uint8_t(!fp4 && (byte & 127) == 127 ? 0 : byte));
    }
    for (uint32_t& scale : scales) {
      float const factor = 0.1f + float(random(1000)) / 500;
      std::memcpy(&scale, &factor, 4);
      for (int i = 0; fp4 && i < 4; ++i) {
        scale = scale << 8 | (119 + random(10));
      }
    }
  }
  int bytes() const { return fp4 ? dim / 2 : dim; }

  double element(int row, int k) const {
    if (!fp4) {
      return e4m3(data[row * bytes() + k]);
    }
    unsigned const byte = data[row * bytes() + k / 2];
    return std::ldexp(e2m1(k % 2 == 0 ? byte & 15 : byte >> 4), int(scales[row] >> k / 32 * 8 & 255) - 127);
  }
  double factor(int row) const { return fp4 ? 1.0 : __uint_as_float(scales[row]); }
};

struct Problem {
  Rows q, kv;
  int heads;
  std::vector<float> weights;

  Problem(int queries, int keys, int given, int dim, bool fp4)
      : q(queries * given, dim, fp4), kv(keys, dim, fp4), heads(given) {
    for (int i = 0; i < queries * heads; ++i) {
      weights.push_back(float(random(2001)) / 1000 - 1);
    }
  }
  int queries() const { return int(weights.size()) / heads; }

  double logit(int query, int key, double& size) const {
    double sum = 0;
    size = 0;
    for (int h = query * heads; h < (query + 1) * heads; ++h) {
      double product = 0;
      for (int k = 0; k < q.dim; ++k) {
        double const term = q.element(h, k) * kv.element(key, k);
        product += term, size += std::fabs(term * weights[h]);
      }
      sum += weights[h] * std::max(product, 0.0);
    }
    size *= kv.factor(key);
    return sum * kv.factor(key);
  }

  // `from`, `to`: what each query looks at; logit (query, key) is in column key - origin.
  void compare(std::vector<float> const& out, int width, std::vector<int> const& from, std::vector<int> const& to,
               bool compressed, bool clean) const {
    for (int i = 0; i < queries(); ++i) {
      int const origin = compressed ? from[i] : 0;
      for (int column = 0; column < width; ++column) {
        float const found = out[i * width + column];
        int const key = column + origin;
        if (key < from[i] || key >= to[i]) {
          if (clean ? found != -INFINITY : found != kPoison) {
            fault("what nobody looks at", i, key);
          }
          continue;
        }
        double size;
        double const wanted = logit(i, key, size);
        if (!(std::fabs(found - wanted) <= 1e-6 * size)) {
          fault("a logit", i, key);
        }
      }
    }
  }
};

template <class Kernel>
void launch(tilewright_mqa_logits_args const& args) {
  using Host = LogitsHost<Kernel>;
  typename Kernel::Params params;
  tilewright::LaunchShape shape;
  if (!Host::can_implement(args) || Host::make_params(args, params, shape) != cudaSuccess) {
    fault("refused");
    return;
  }
  gridDim.x = int(shape.grid.x);
  for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {
    host::start(Kernel::kSharedBytes);
    disorder = random(1 << 20) + 1;
    run(Kernel::kThreads, [&] { Kernel{}(params, reinterpret_cast<char*>(host::memory + host::kSharedAt)); });
    if (!host::copies.empty() || !told.empty()) {
      fault("nobody waits for a copy, or a product");
    }
  }
}

void operands(tilewright_mqa_logits_args& args, Problem const& problem, std::vector<float>& out, int width) {
  args.queries = problem.queries(), args.heads = problem.heads, args.head_dim = problem.q.dim;
  args.q = problem.q.data.data(), args.q_scale = reinterpret_cast<int32_t const*>(problem.q.scales.data());
  args.weights = problem.weights.data();
  args.out = out.data(), args.ld_out = args.width = width;
  args.ld_q = problem.q.dim, args.batch_stride_q = int64_t(problem.q.dim) * problem.heads;
  args.ld_weights = problem.heads;
}

// With `short_ranges` blocks of queries follow each other faster than tiles of keys.
template <template <int> class Products, int Heads, int Dim, int Queries, int Stages>
void ragged(bool fp4, bool compressed, bool clean, bool short_ranges = false) {
  int const kQueries = short_ranges ? 8 * Queries - 1 : 2 * Queries + 1, kKeys = short_ranges ? 90 : 603;
  Problem const problem(kQueries, kKeys, Heads, Dim, fp4);
  int const width = compressed ? 400 : kKeys;
  std::vector<float> out(kQueries * width, kPoison);
  std::vector<int> starts, ends, from, to;
  for (int i = 0; i < kQueries; ++i) {
    starts.push_back(int(random(kKeys)) - 10);
    ends.push_back(i % 5 == 3 ? starts.back() : starts.back() + int(random(kKeys)));
    from.push_back(std::max(starts[i], 0));
    to.push_back(std::min(ends[i], std::min(kKeys, compressed ? from[i] + width : kKeys)));
  }
  starts.back() = from.back() = 0, ends.back() = kKeys, to.back() = std::min(kKeys, width);
  tilewright_mqa_logits_args args{};
  operands(args, problem, out, width);
  args.keys = kKeys, args.kv = problem.kv.data.data(), args.kv_scale = problem.kv.scales.data(), args.ld_kv = Dim;
  args.starts = starts.data(), args.ends = ends.data();
  args.compressed = compressed, args.clean = clean;
  args.tactic = {short_ranges ? 1 : 2, 2};
  launch<TensorKernel<Ragged, Products, Heads, Dim, Queries, Stages, 2, tilewright::sm90::F32, true>>(args);
  problem.compare(out, width, from, to, compressed, clean);
}

// With few thread blocks a long sequence is one item of many pages.
template <template <int> class Products, int Heads, int Dim, int Queries, int Stages, int Keys = 512, int Blocks = 3>
void paged(bool fp4, int page, bool clean) {
  constexpr int kSequences = 2, kNext = Queries + 1, kBlocks = Blocks;
  int const pages = Keys / page, keys = pages * page, width = keys - 9;
  Problem const problem(kSequences * kNext, kSequences * keys, Heads, Dim, fp4);
  Rows const& kv = problem.kv;
  // Pages lie in the cache in another order.
  int const bytes = page * (kv.bytes() + 4);
  alignas(16) static uint8_t cache[1 << 18];
  if (size_t(kSequences) * pages * bytes > sizeof cache) {
    fault("no room for pages", pages, bytes);
    return;
  }
  std::vector<int> table, lengths, from, to;
  for (int i = 0; i < kSequences * pages; ++i) {
    int const place = (i * 7 + 3) % (kSequences * pages);  // 7: no divisor of the pages
    table.push_back(place);
    std::memcpy(cache + place * bytes, kv.data.data() + i * page * kv.bytes(), page * kv.bytes());
    std::memcpy(cache + place * bytes + page * kv.bytes(), kv.scales.data() + i * page, page * 4);
  }
  for (int i = 0; i < kSequences * kNext; ++i) {
    lengths.push_back(i % 7 == 2 ? 0 : i < kNext ? keys : 1 + int(random(keys)));
    from.push_back(0), to.push_back(std::min(lengths[i], width));
  }
  std::vector<int> schedule(2 * (kBlocks + 1));
  ScheduleParams const plan{lengths.data(), nullptr, schedule.data(), 2, kSequences, kNext, kBlocks};
  disorder = 0;
  run(64, [&] { ScheduleKernel<64, false>{}(plan, nullptr); });
  std::vector<float> out(problem.queries() * width, kPoison);
  tilewright_mqa_logits_args args{};
  operands(args, problem, out, width);
  args.keys = width, args.next_n = kNext, args.kv_cache = cache, args.ld_kv_cache = bytes;
  args.cache_pages = kSequences * pages, args.table_pages = args.ld_block_table = pages, args.page = page;
  args.block_table = table.data(), args.schedule = schedule.data(), args.lengths = lengths.data();
  args.per_token = 1, args.blocks = kBlocks, args.clean = clean, args.tactic = {1, kBlocks};
  launch<TensorKernel<Paged, Products, Heads, Dim, Queries, Stages, 2, tilewright::sm90::F32, true>>(args);
  // Keys of sequences follow each other.
  for (int s = 0; s < kSequences; ++s) {
    for (int i = s * kNext; i < (s + 1) * kNext; ++i) {
      for (int key = 0; key < width; ++key) {
        float const found = out[i * width + key];
        double size;
        double const wanted = problem.logit(i, s * keys + key, size);
        bool const right =
            key < to[i] ? std::fabs(found - wanted) <= 1e-6 * size : found == (clean ? -INFINITY : kPoison);
        if (!right) {
          fault("a logit of pages", i, key);
        }
      }
    }
  }
}

void print(char const* name, uint64_t descriptor) { std::printf("%s %llx\n", name, (unsigned long long)descriptor); }

void print_descriptors() {
  print("rows128", tcgen05::shared_descriptor<128>(0x2A400));
  print("rows64", tcgen05::shared_descriptor<64>(0x2A400));
  print("rows32", tcgen05::shared_descriptor<32>(0x2A400));
  print("words", tcgen05::shared_descriptor<16>(0x2A400));
  print("fp8_16", tcgen05::fp8_instruction<16>());
  print("fp8_128", tcgen05::fp8_instruction<128>());
  print("fp8_256", tcgen05::fp8_instruction<256>());
  print("fp4_128_0", tcgen05::fp4_instruction<128>(0));
  print("fp4_128_2", tcgen05::fp4_instruction<128>(2));
}

struct Case {
  char const* name;
  void (*run)(bool late);
};

Case const kCases[] = {
    {"ragged_warp_fp8", [](bool late) { ragged<EmulatedTcgen05, 64, 128, 1, 4>(false, false, !late); }},
    {"ragged_warp_fp4", [](bool late) { ragged<EmulatedTcgen05Fp4, 16, 64, 8, 4>(true, false, late); }},
    {"ragged_fp8_16x64", [](bool late) { ragged<BesideFp8, 16, 64, 4, 4>(false, true, late); }},
    {"ragged_fp8_32x32", [](bool late) { ragged<BesideFp8, 32, 32, 2, 6>(false, false, late); }},
    {"ragged_fp8_short", [](bool late) { ragged<BesideFp8, 16, 32, 4, 8>(false, false, late, true); }},
    {"ragged_fp4_64x128", [](bool late) { ragged<BesideFp4, 64, 128, 2, 4>(true, true, !late); }},
    {"ragged_fp4_short", [](bool late) { ragged<BesideFp4, 32, 64, 4, 8>(true, false, !late, true); }},
    {"paged_fp8_16x128", [](bool late) { paged<BesideFp8, 16, 128, 4, 4>(false, late ? 32 : 64, late); }},
    {"paged_fp4_32x128", [](bool late) { paged<BesideFp4, 32, 128, 4, 4>(true, late ? 64 : 32, !late); }},
    {"paged_fp4_64x64", [](bool late) { paged<BesideFp4, 64, 64, 2, 6>(true, late ? 32 : 64, late); }},
    {"paged_fp8_80_pages", [](bool late) { paged<BesideFp8, 16, 32, 4, 4, 80 * 32, 1>(false, 32, late); }},
};

}  // namespace

// Words: none, for the names of all cases; descriptors; or a case, and when copies and products are done: early
// (where they are asked for) or late.
int main(int count, char** words) {
  host::beside = Beside::go_on;
  host::late = count > 2 && std::strcmp(words[2], "late") == 0;
  if (count > 1 && std::strcmp(words[1], "descriptors") == 0) {
    print_descriptors();
    return 0;
  }
  bool known = count == 1;
  for (Case const& test : kCases) {
    if (count == 1) {
      std::printf("%s\n", test.name);
    } else if (std::strcmp(words[1], test.name) == 0) {
      known = true, test.run(host::late);
    }
  }
  return host::faults != 0 || !known;
}
