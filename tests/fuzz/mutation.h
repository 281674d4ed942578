// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// libFuzzer's own mutations; replay_main.cpp has simple ones in their place.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t bytes, std::size_t max);

/// Defined by the *_mutator.cpp of a target that knows the structure of its inputs: changes `data`
/// in place, never to more than `max` bytes, and returns how many it has now.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data,
                                               std::size_t bytes,
                                               std::size_t max,
                                               unsigned int seed);

/// What those mutators share.
namespace lockstep::fuzz {

using Bytes = std::vector<std::uint8_t>;
using Json = nlohmann::ordered_json;
using Words = std::span<const std::string_view>;

/// Choices that a seed decides (splitmix64).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  /// Of 0 to count - 1; 0 where count is 0.
  std::size_t below(std::size_t count) { return count == 0 ? 0 : std::size_t(next() % count); }
  bool one_in(std::size_t count) { return below(count) == 0; }
  /// An element of `range`, which is not empty.
  template <typename Range>
  decltype(auto) pick(Range&& range) {
    return *std::next(std::begin(range), std::ptrdiff_t(below(std::size(range))));
  }

 private:
  std::uint64_t state_;
};

/// The words between the blanks of `text`, and one that is empty.
std::vector<std::string_view> words_of(std::string_view text);

/// A number at which parsers err (0, 2^31, 2^53 + 1, 2^64 - 1, ...), or one near `value`.
std::uint64_t extreme_number(std::uint64_t value, Random& random);

/// `text` after one of libFuzzer's own mutations; at most 16 bytes longer.
std::string mutated_text(std::string_view text);

/// The JSON in `text`; nothing where it is none, or is nested more than 64 levels deep.
std::optional<Json> read_json(std::string_view text);

/// One change of a value, a key or the length of a list or object somewhere in `value`. New strings
/// and keys come from `words`, from the value itself and from libFuzzer.
void mutate_json(Json& value, Random& random, Words words);

/// `value` in one line. In one text of sixteen the root has a key twice.
std::string json_text(const Json& value, Random& random);

/// Half of the inputs by libFuzzer's own mutations. The others are what `mutate` (Bytes and Random
/// to Bytes) gives; where that is empty or too long, it is libFuzzer's turn again.
template <typename Mutate>
std::size_t mutate_half(std::uint8_t* data,
                        std::size_t bytes,
                        std::size_t max,
                        unsigned int seed,
                        const Mutate& mutate) {
  Random random(seed);
  if (random.one_in(2)) return LLVMFuzzerMutate(data, bytes, max);
  const Bytes result = mutate(Bytes(data, data + bytes), random);
  if (result.empty() || result.size() > max) return LLVMFuzzerMutate(data, bytes, max);
  std::memcpy(data, result.data(), result.size());
  return result.size();
}

}  // namespace lockstep::fuzz
