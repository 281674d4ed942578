// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "lockstep/data/dataset.h"
#include "tests/fuzz/fuzz_target.h"

namespace lockstep::fuzz {

/// Loads the first, the last and a few samples between them, as training would.
inline void load_samples(const std::shared_ptr<const data::Dataset>& dataset) {
  if (dataset == nullptr) return;
  const data::SampleSpec& spec = dataset->spec();
  std::vector<std::byte> input(spec.input.bytes()), target(spec.target.bytes());
  const std::int64_t size = dataset->size();
  require(size >= 1, "a part without samples");
  for (std::int64_t i = 0; i < size; i += std::max<std::int64_t>(1, (size - 1) / 3))
    dataset->load(std::uint64_t(i), i, input.data(), target.data());
  require(!dataset->describe().empty(), "a source without description");
  (void)dataset->class_names();
  (void)dataset->fingerprint();
}

inline void load_samples(const data::DataSplit& split) {
  require(split.train != nullptr, "no training part");
  load_samples(split.train);
  load_samples(split.validation);
}

}  // namespace lockstep::fuzz
