// SPDX-License-Identifier: Apache-2.0
#include "tests/support/cuda_emulator/emulated_algorithm.h"

#include <fmt/format.h>

#include "lockstep/error.h"
#include "tests/support/cuda_emulator/library_limits.h"

namespace lockstep::cuda {

LibraryLimits& library_limits() {
  static LibraryLimits limits;
  return limits;
}

std::optional<EmulatedAlgorithm> choose_emulated(const Device& device,
                                                 const std::string& key,
                                                 bool able,
                                                 const std::string& what) {
  const LibraryLimits& limits = library_limits();
  const AlgorithmChoice& choice = device.algorithms->choice(key, [&]() -> AlgorithmChoice {
    if (!able) return {.text = "", .why_none = "the emulated library refuses it"};
    return {.text = fmt::format("algorithm {}",
                                device.times_algorithms ? limits.fastest : limits.algorithm),
            .why_none = ""};
  });
  if (choice.text.empty()) return std::nullopt;
  const EmulatedAlgorithm algorithm{choice.text.back() - '0'};
  if (!able || algorithm.number >= limits.algorithms)
    throw_cannot_follow(what, choice.text, "the emulated library lacks it");
  return algorithm;
}

}  // namespace lockstep::cuda
