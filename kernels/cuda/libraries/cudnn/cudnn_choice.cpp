// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/libraries/cudnn/cudnn_choice.h"

#include <algorithm>
#include <sstream>

#include "core/base/check.h"

namespace lockstep::cuda {

std::string to_text(const CudnnChoice& choice) {
  std::string text =
      fmt::format("engine {} workspace {} knobs", choice.engine, choice.workspace_bytes);
  for (const auto& [type, value] : choice.knobs) text += fmt::format(" {}={}", type, value);
  return text;
}

CudnnChoice cudnn_choice(std::string_view text) {
  CudnnChoice choice;
  std::string engine, workspace, knobs;
  std::istringstream words{std::string(text)};
  words >> engine >> choice.engine >> workspace >> choice.workspace_bytes >> knobs;
  LOCKSTEP_ASSERT(!words.fail() && engine == "engine" && knobs == "knobs");
  std::int64_t type = 0, value = 0;
  for (char equals = 0; words >> type >> equals >> value;) {
    LOCKSTEP_ASSERT(equals == '=');
    choice.knobs.emplace_back(type, value);
  }
  LOCKSTEP_ASSERT(words.eof());
  return choice;
}

bool is_acceptable(std::span<const cudnnBackendNumericalNote_t> notes, bool rounded_factors) {
  return std::ranges::all_of(notes, [&](cudnnBackendNumericalNote_t note) {
    if (note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE) return rounded_factors;
    return note == CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP;
  });
}

}  // namespace lockstep::cuda
