# find_package(tilewright CONFIG): the target tilewright::tilewright, for C++ programs that load or link libraries of
# kernels. `cmake $(tilewright config --cmake)` tells where this file and Apache TVM-FFI's library are.
get_filename_component(_tilewright_root "${CMAKE_CURRENT_LIST_DIR}" DIRECTORY)
set(TILEWRIGHT_INCLUDE_DIR "${_tilewright_root}/include")
string(REPLACE ":" ";" _tilewright_family_includes "${TILEWRIGHT_FAMILY_INCLUDES}")  # those of plugins' headers

# Every library of kernels needs libtvm_ffi.so. It is in the Python package of Apache TVM-FFI, and needs no Python.
find_library(TILEWRIGHT_TVM_FFI tvm_ffi REQUIRED)
get_filename_component(_tilewright_tvm_ffi "${TILEWRIGHT_TVM_FFI}" DIRECTORY)

if(NOT TARGET tilewright::tilewright)
  add_library(tilewright::tilewright INTERFACE IMPORTED)
  target_compile_features(tilewright::tilewright INTERFACE cxx_std_17)
  target_include_directories(tilewright::tilewright INTERFACE "${TILEWRIGHT_INCLUDE_DIR}"
                                                              ${_tilewright_family_includes})
  # The program calls nothing of libtvm_ffi itself; libraries that it loads expect to find it loaded.
  target_link_libraries(
    tilewright::tilewright
    INTERFACE "-Wl,--no-as-needed" "${TILEWRIGHT_TVM_FFI}" "-Wl,--as-needed" "-Wl,-rpath,${_tilewright_tvm_ffi}"
              ${CMAKE_DL_LIBS})
endif()
