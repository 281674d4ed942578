// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/matrix_library.h"

#include <algorithm>
#include <dlfcn.h>
#include <fmt/format.h>
#include <omp.h>
#include <vector>

#include "kernels/cpu/bf16_products.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/onednn/dnnl_common.h"
#include "kernels/cpu/onednn/dnnl_versions.h"
#include "lockstep/error.h"

namespace lockstep::cpu {
namespace {

/// Weights in the layout that oneDNN likes best, as the kernels have them.
std::function<void()> make_gemm(dnnl::memory::data_type type, std::int64_t size) {
  const auto plain = [&](dnnl::memory::format_tag tag) {
    return dnnl::memory::desc({size, size}, type, tag);
  };
  const auto a = plain(dnnl::memory::format_tag::ab), any = plain(dnnl::memory::format_tag::any);
  const auto description = dnnl_versions::matmul(dnnl_engine(), a, any, nullptr, a, {});
  const auto zeros = [](const dnnl::memory::desc& layout) {
    const dnnl::memory memory(layout, dnnl_engine());
    std::fill_n(static_cast<std::byte*>(memory.get_data_handle()), layout.get_size(), std::byte{0});
    return memory;
  };
  const dnnl::memory left = zeros(a), right = zeros(description.weights_desc()), result = zeros(a);
  return [left, right, result, product = dnnl::matmul(description)] {
    const BlockedSignals signals_wait;
    dnnl::stream stream(dnnl_engine());
    product.execute(stream,
                    {{DNNL_ARG_SRC, left}, {DNNL_ARG_WEIGHTS, right}, {DNNL_ARG_DST, result}});
    stream.wait();
  };
}

}  // namespace

std::string matrix_library() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch);
}

bool has_depthwise_kernels() { return true; }

void check_matrix_library() {
  // Of another major version, structures differ under the names that the linker compares; an older
  // minor one may lack functions.
  const dnnl_version_t& found = *dnnl_version();
  if (found.major == DNNL_VERSION_MAJOR && found.minor >= DNNL_VERSION_MINOR) return;
  Dl_info place{};
  // A function's address may be that of the program's own table of calls.
  void* const function = dlsym(RTLD_DEFAULT, "dnnl_version");
  const bool known = function != nullptr && dladdr(function, &place) != 0;
  throw EnvironmentError(
      fmt::format("oneDNN: {} is version {}.{}.{}, and {}.{} or later of {} is wanted, which this "
                  "program was built with",
                  known ? place.dli_fname : "the library",
                  found.major,
                  found.minor,
                  found.patch,
                  DNNL_VERSION_MAJOR,
                  DNNL_VERSION_MINOR,
                  DNNL_VERSION_MAJOR),
      fmt::format("have LD_LIBRARY_PATH (and LD_PRELOAD) lead to oneDNN {} (apt-get install "
                  "libdnnl{}), or build Lockstep with this one",
                  DNNL_VERSION_MAJOR,
                  DNNL_VERSION_MAJOR));
}

void use_one_thread() {
  // OpenMP holds its number of threads per thread that starts regions, so each thread that may meet
  // oneDNN has to say so; asking again costs a look at a thread-local flag.
  thread_local bool done = false;
  if (done) return;
  omp_set_num_threads(1);
  done = true;
}

Bf16Products library_bf16_products() {
  // Each set contains the bits of the sets it extends.
  const auto effective = unsigned(dnnl::get_effective_cpu_isa());
  const auto has = [=](dnnl::cpu_isa wanted) {
    return (effective & unsigned(wanted)) == unsigned(wanted);
  };
  if (has(dnnl::cpu_isa::avx512_core_amx)) return Bf16Products::amx;
  return has(dnnl::cpu_isa::avx512_core_bf16) ? Bf16Products::avx512_bf16 : Bf16Products::widened;
}

std::function<void()> make_square_matmul(DType type, std::int64_t size) {
  use_one_thread();
  const bool bf16 = type == DType::bf16;
  try {
    return make_gemm(bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32, size);
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_unimplemented) return {};
    throw_translated("peak measurement", error);
  }
}

}  // namespace lockstep::cpu

bool lockstep::cpu_backend_has_onednn() { return true; }
