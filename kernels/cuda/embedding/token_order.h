// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/device/device.h"

namespace lockstep::cuda {

/// The rows of a list of tokens, sorted by token; rows of one token keep their order, so that the
/// result is the same in every run.
class TokenOrder {
 public:
  /// Rows of a token that is frequent, at least.
  static constexpr std::int32_t kFrequent = 32;

  /// Throws Error for more than 2^31 - 1 rows or tokens of the vocabulary.
  TokenOrder(std::int64_t rows, std::int64_t vocabulary);

  std::size_t workspace_bytes() const;
  /// Enqueues the sort on the device's compute stream. tokens: [rows], each in [0, vocabulary);
  /// `workspace`: aligned to 4 bytes, holds the result.
  void sort(const Device& device, const std::int32_t* tokens, void* workspace) const;

  /// Rows of token v: order[offsets[v]] to order[offsets[v + 1] - 1]. offsets: [vocabulary + 1].
  const std::int32_t* offsets(const void* workspace) const;
  const std::int32_t* order(const void* workspace) const;
  /// The frequent tokens, in any order; their count stands before the first. frequent: [1 +
  /// max_frequent()].
  const std::int32_t* frequent(const void* workspace) const;
  std::int64_t max_frequent() const { return rows_ / kFrequent; }

 private:
  std::int64_t rows_, vocabulary_;
};

}  // namespace lockstep::cuda
