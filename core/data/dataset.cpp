// SPDX-License-Identifier: Apache-2.0
#include "lockstep/dataset.h"

namespace lockstep::data {

void Dataset::load_batch(std::uint64_t epoch,
                         std::span<const std::int64_t> indices,
                         std::byte* input,
                         std::byte* target) const {
  const std::size_t input_bytes = spec().input.bytes(), target_bytes = spec().target.bytes();
  for (const std::int64_t index : indices) {
    load(epoch, index, input, target);
    input += input_bytes;
    target += target_bytes;
  }
}

}  // namespace lockstep::data
