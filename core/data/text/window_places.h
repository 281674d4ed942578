// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/data/text/token_sequence.h"

namespace lockstep::data {

/// The tokens [first, first + count] of a sequence: `count` that a model sees, and the one after.
struct WindowPlace {
  std::int64_t first = 0, count = 0;
};

/// Where the windows of a source lie in its tokens.
class WindowPlaces {
 public:
  virtual ~WindowPlaces() = default;
  /// Windows of an epoch.
  virtual std::int64_t size() const = 0;
  virtual WindowPlace place(std::uint64_t epoch, std::int64_t index) const = 0;
  /// Fewest tokens that a sequence must have.
  virtual std::int64_t least_tokens() const = 0;
  /// After "windows of 64": " at random places".
  virtual std::string describe() const = 0;
  /// What two of equal tokens and context differ in.
  virtual std::string key() const = 0;
};

/// As random_windows(), windows_in_order() and document_windows() say; `tokens`: of the sequence.
std::unique_ptr<WindowPlaces> random_places(std::int64_t tokens,
                                            std::int64_t context,
                                            std::uint64_t seed);
std::unique_ptr<WindowPlaces> places_in_order(std::int64_t tokens, std::int64_t context);
std::unique_ptr<WindowPlaces> document_places(const TokenSequence& sequence, std::int64_t context);

}  // namespace lockstep::data
