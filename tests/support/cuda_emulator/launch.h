// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <tuple>
#include <type_traits>

#include "tests/support/cuda_emulator/runtime_api.h"

namespace lockstep::emulator {

/// A kernel with its arguments, to be called once by each thread of the grid.
struct Launch {
  dim3 grid, block;
  std::size_t shared_bytes = 0;
  const void* kernel = nullptr;  ///< its address, which attributes are kept under
  void (*call)(const void* arguments) = nullptr;
  std::shared_ptr<const void> arguments = {};
  bool dependent = false;  ///< may begin before what precedes it has ended
};

/// Asks `stream` for it. cudaErrorInvalidConfiguration or cudaErrorInvalidValue for a shape that no
/// device takes; from whoever runs it cudaErrorLaunchFailure, cudaErrorIllegalAddress or
/// cudaErrorMisalignedAddress for a kernel that does wrong. Then cudaGetErrorString() tells what.
cudaError_t enqueue_launch(cudaStream_t stream, Launch launch);

/// Whether an attribute of `config` does.
bool asks_for_dependent_launch(const cudaLaunchConfig_t& config);

/// Holds a kernel and what it is called with. Parameters lie in memory that kernels must not see,
/// so that handing them over is not watched.
template <typename... Parameters>
struct BoundCall {
  void (*kernel)(Parameters...);
  std::tuple<std::remove_cv_t<Parameters>...> parameters;

  __attribute__((no_sanitize("thread"))) static void call(const void* self) {
    const auto& bound = *static_cast<const BoundCall*>(self);
    hand_over(bound, std::index_sequence_for<Parameters...>());
  }
  template <std::size_t... I>
  __attribute__((no_sanitize("thread"), always_inline)) static inline void hand_over(
      const BoundCall& bound, std::index_sequence<I...>) {
    bound.kernel(std::get<I>(bound.parameters)...);
  }
};

}  // namespace lockstep::emulator

template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config,
                               void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  using Call = lockstep::emulator::BoundCall<Parameters...>;
  return lockstep::emulator::enqueue_launch(
      config->stream,
      {config->gridDim,
       config->blockDim,
       config->dynamicSmemBytes,
       reinterpret_cast<const void*>(kernel),
       Call::call,
       std::make_shared<Call>(Call{kernel, {static_cast<Parameters>(arguments)...}}),
       lockstep::emulator::asks_for_dependent_launch(*config)});
}
