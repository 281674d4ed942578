// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/dataset.h"

#include <vector>

#include "core/base/check.h"

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

std::int32_t Dataset::label(std::int64_t index) const {
  LOCKSTEP_ASSERT(spec().target == TensorType({}, DType::i32));
  std::vector<std::byte> input(spec().input.bytes());
  std::int32_t label = 0;
  load(0, index, input.data(), reinterpret_cast<std::byte*>(&label));
  return label;
}

}  // namespace lockstep::data
