// Runs the kernel of `transpose_fp8` on the host, with groups that no int's sum holds: see test_group_sums.py.
#include "host_gpu.hpp"

#include <sys/mman.h>
#include <unistd.h>

struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
inline uint32_t __byte_perm(uint32_t a, uint32_t b, uint32_t selector) {
  uint64_t const both = uint64_t(b) << 32 | a;
  uint32_t found = 0;
  for (int i = 0; i < 4; ++i) {
    found |= uint32_t(both >> (selector >> i * 4 & 7) * 8 & 0xff) << i * 8;
  }
  return found;
}

#include "tilewright/transpose_fp8/kernel.hpp"

using host::fault;
using host::random;

namespace {

constexpr int kRows = 128 * 9, kColumns = 20;
constexpr int64_t kMargin = 1 << 20;
constexpr char kPoison = 0x5A;

// Memory behind which nothing may be read.
char* guarded(size_t bytes) {
  size_t const page = size_t(sysconf(_SC_PAGESIZE)), pages = (bytes + page - 1) / page;
  void* const memory = mmap(nullptr, (pages + 1) * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || mprotect(static_cast<char*>(memory) + pages * page, page, PROT_NONE) != 0) {
    std::abort();
  }
  return static_cast<char*>(memory) + pages * page - bytes;
}

// Rows of a group that lie in one piece in `out`, as far as there are such; what no group has stays.
void compare(std::vector<int32_t> const& sizes) {
  using Kernel = tilewright::transpose_fp8::Kernel<true>;
  alignas(16) static char memory[kMargin + kRows * kColumns + kMargin];
  static char* const x = guarded(kRows * kColumns);
  for (int i = 0; i < kRows * kColumns; ++i) {
    x[i] = char(random(64));
  }
  std::memset(memory, kPoison, sizeof memory);
  char* const out = memory + kMargin;
  tilewright_transpose_fp8_args args{};
  args.rows = kRows, args.columns = kColumns, args.batch = 1;
  args.x = x, args.out = out, args.group_rows = sizes.data(), args.groups = int(sizes.size());
  args.ld_x = kColumns, args.ld_out = kRows;
  Kernel::Params params;
  tilewright::LaunchShape shape{};
  if (!Kernel::can_implement(args) || Kernel::make_params(args, params, shape) != cudaSuccess) {
    fault("refused", args.groups);
    return;
  }
  for (blockIdx.x = 0; blockIdx.x < int(shape.grid.x); ++blockIdx.x) {
    run(Kernel::kThreads, [&] { Kernel{}(params, nullptr); });
  }
  std::vector<char> wanted(sizeof memory, kPoison);
  int64_t begin = 0;
  for (int64_t const size : sizes) {
    int64_t const end = std::min<int64_t>(begin + std::max<int64_t>(size, 0), kRows);
    for (int64_t row = begin; row < end; ++row) {
      for (int column = 0; column < kColumns; ++column) {
        wanted[kMargin + begin * kColumns + column * (end - begin) + row - begin] = x[row * kColumns + column];
      }
    }
    begin = end;
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (memory[i] != wanted[i]) {
      fault("a byte", long(i) - kMargin);
    }
  }
}

}  // namespace

int main() {
  constexpr int kMost = INT32_MAX - 127;  // a multiple of 128
  compare({128, 0, 384, 128});
  compare({128, 4096});
  compare({kMost});
  compare({128, kMost, 256});
  compare({1024, kMost, 256, kMost, 128});
  compare({1024, kMost, 256, kMost - 128, 512});
  compare({-128, 256, kMost, kMost, -kMost, kMost});
  std::vector<int32_t> many(70, 0);
  many[3] = 256, many[40] = 512, many[41] = many[69] = kMost;
  compare(many);
  many[40] = 128, many[41] = 0, many[66] = 256, many[69] = 128;  // rows for groups of each 32
  compare(many);
  compare(std::vector<int32_t>(70, kMost));
  return host::faults != 0;
}
