// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/libraries/cublaslt_choice.h"

#include <array>
#include <charconv>
#include <cstring>
#include <sstream>
#include <type_traits>

#include "core/base/check.h"

namespace lockstep::cuda {
namespace {

using AlgorithmBytes = std::array<unsigned char, sizeof(cublasLtMatmulAlgo_t)>;
static_assert(std::is_trivially_copyable_v<cublasLtMatmulAlgo_t>);

}  // namespace

std::string to_text(const CublasLtChoice& choice) {
  AlgorithmBytes bytes;
  std::memcpy(bytes.data(), &choice.algorithm, bytes.size());
  std::string text = fmt::format("workspace {} algorithm ", choice.workspace_bytes);
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

CublasLtChoice cublaslt_choice(std::string_view text) {
  CublasLtChoice choice;
  std::string workspace, algorithm, digits;
  std::istringstream words{std::string(text)};
  words >> workspace >> choice.workspace_bytes >> algorithm >> digits;
  AlgorithmBytes bytes;
  LOCKSTEP_ASSERT(!words.fail() && digits.size() == 2 * bytes.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const char* const from = digits.data() + 2 * i;
    const auto [end, error] = std::from_chars(from, from + 2, bytes[i], 16);
    LOCKSTEP_ASSERT(error == std::errc() && end == from + 2);
  }
  std::memcpy(&choice.algorithm, bytes.data(), bytes.size());
  return choice;
}

}  // namespace lockstep::cuda
