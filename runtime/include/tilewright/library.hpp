// Kernels from C++, without Python: loads a library that `tilewright build` or `tilewright wheel` has made, and finds
// kernels in it by name or, with the header that `tilewright choices` writes, by problem. Needs no header of CUDA.
//
//   tilewright::Library const library("sm90_gemm_lean.so");
//   tilewright_kernel const& kernel = library.kernel<tilewright_gemm_args>(name);
//   if (kernel.can_implement(&args) == TILEWRIGHT_OK) {
//     kernel.launch(&args, workspace, stream);  // `workspace`: kernel.workspace_bytes(&args) bytes of the device
//   }
//
// A program that links the library instead of loading it names a kernel by TILEWRIGHT_KERNEL(name).
#ifndef TILEWRIGHT_LIBRARY_HPP_
#define TILEWRIGHT_LIBRARY_HPP_

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "tilewright/abi.h"
#include "tilewright/args_bytes.hpp"

// Declares the kernel of a library that the program is linked with: TILEWRIGHT_KERNEL(name); ... tilewright_name.launch
#define TILEWRIGHT_KERNEL(NAME) extern "C" tilewright_kernel const tilewright_##NAME

namespace tilewright {

// A shared library of kernels. It is never unloaded, because launches may still be under way.
class Library {
 public:
  // Throws std::runtime_error with the loader's reason.
  explicit Library(std::string const& path) : path_(path), handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) {
      throw std::runtime_error(std::string("cannot load a library of kernels: ") + dlerror());
    }
  }

  // The kernel of a name, or null. Throws std::runtime_error if it was built for another version of the C ABI.
  tilewright_kernel const* find(std::string const& name) const {
    auto const* const kernel = static_cast<tilewright_kernel const*>(dlsym(handle_, ("tilewright_" + name).c_str()));
    if (kernel != nullptr && kernel->abi_version != TILEWRIGHT_ABI_VERSION) {
      throw std::runtime_error(name + " of " + path_ + " has ABI " + std::to_string(kernel->abi_version) +
                               ", these headers have " + std::to_string(TILEWRIGHT_ABI_VERSION) + "; build it again");
    }
    return kernel;
  }

  // The kernel of a name, whose arguments are `Args`. Throws std::runtime_error if the library does not hold it, or
  // holds one that was built with another argument struct.
  template <class Args>
  tilewright_kernel const& kernel(std::string const& name) const {
    tilewright_kernel const* const kernel = find(name);
    if (kernel == nullptr) {
      throw std::runtime_error(path_ + " does not hold " + name);
    }
    if (!ArgsBytesOf<Args>::kValue.fit(kernel->args_bytes)) {
      throw std::runtime_error(name + " of " + path_ + " takes " + std::to_string(kernel->args_bytes) +
                               " bytes of arguments, got " + std::to_string(sizeof(Args)));
    }
    return *kernel;
  }

 private:
  std::string path_;
  void* handle_;
};

// The tactic that is chosen for the values of an extent from `first` to the next choice.
template <class Tactic>
struct Choice {
  int64_t first;
  char const* module;  // its library
  char const* kernel;
  Tactic tactic;  // for the member `tactic` of the family's arguments
};

// The choices for all values of an extent from `entries[0].first` to `last`.
template <class Tactic, size_t N>
struct Choices {
  int64_t last;
  Choice<Tactic> entries[N];

  // The choice for a value, or null if the value is outside.
  Choice<Tactic> const* find(int64_t value) const {
    if (value < entries[0].first || value > last) {
      return nullptr;
    }
    Choice<Tactic> const* choice = entries;
    for (size_t i = 1; i < N && entries[i].first <= value; ++i) {
      choice = entries + i;
    }
    return choice;
  }
};

}  // namespace tilewright

#endif  // TILEWRIGHT_LIBRARY_HPP_
