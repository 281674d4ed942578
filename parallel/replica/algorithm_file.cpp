// SPDX-License-Identifier: Apache-2.0
#include "parallel/replica/algorithm_file.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fstream>
#include <optional>

#include "core/base/parameter_names.h"
#include "core/base/text/printable.h"
#include "lockstep/error.h"
#include "parallel/batch/fingerprint.h"
#include "parallel/comm/error_serialization.h"

namespace lockstep {
namespace {

constexpr std::string_view kHead = "lockstep algorithms 1";
constexpr std::size_t kLargestFile = std::size_t(64) << 20;

/// Nothing where there is no such file.
std::optional<std::string> content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string text;
  for (std::array<char, 1 << 16> piece; text.size() <= kLargestFile && file.good();) {
    file.read(piece.data(), piece.size());
    text.append(piece.data(), std::size_t(file.gcount()));
  }
  return file.bad() ? std::nullopt : std::optional(text);
}

std::string other_device(const std::string& file, const std::string& then, const std::string& now) {
  return fmt::format("{}: its algorithms are of '{}', this device is '{}'",
                     as_written(file),
                     as_written(then),
                     now);
}

/// What rank 0 does; the note of prepare_algorithms().
std::string prepare(Backend& device, const TrainOptions& options, const std::string& checkpoint) {
  device.time_algorithms(options.algorithms == Algorithms::timed);
  if (!checkpoint.empty()) {
    const std::string path = checkpoint + "/" + kAlgorithmsFile;
    if (const std::optional<std::string> text = content_of(path)) {
      const AlgorithmsFile file = read_algorithms(*text, path);
      if (file.device_class != device.device_class())
        return other_device(path, file.device_class, device.device_class()) +
               ", which chooses its own";
      device.take_choices(file.choices);
      return {};
    }  // of a device that chooses nothing, or of an earlier version
  }
  if (options.algorithms_file.empty()) return {};
  const std::string& path = options.algorithms_file;
  const std::optional<std::string> text = content_of(path);
  if (!text)
    throw ConfigError(fmt::format("{} of `algorithms` cannot be read", as_written(path)),
                      "give heuristic, timed, or a run's algorithms.txt");
  const AlgorithmsFile file = read_algorithms(*text, path);
  if (file.device_class != device.device_class())
    throw ConfigError(
        "`algorithms`: " + other_device(path, file.device_class, device.device_class()),
        "choose anew on this device: `algorithms` timed");
  device.take_choices(file.choices);
  return {};
}

}  // namespace

std::string algorithms_text(const Backend& device) {
  const std::string choices = device.choices();
  if (choices.empty()) return {};
  return fmt::format("{}\t{}\t{}\n{}", kHead, short_hash(choices), device.device_class(), choices);
}

AlgorithmsFile read_algorithms(const std::string& text, const std::string& file) {
  const auto refuse = [&](const char* why) {
    throw ConfigError(fmt::format("{}: {}", as_written(file), why),
                      "take the file as a run wrote it, or choose anew: `algorithms` timed");
  };
  if (text.size() > kLargestFile) refuse("is larger than 64 MiB");
  const std::size_t head = std::min(text.find('\n'), text.size());
  const std::string first = text.substr(0, head);
  const std::size_t hash = first.find('\t'), device = first.find('\t', hash + 1);
  if (hash == std::string::npos || device == std::string::npos || first.substr(0, hash) != kHead)
    refuse("is not a list of algorithms of this version");
  AlgorithmsFile result{first.substr(device + 1), text.substr(std::min(head + 1, text.size()))};
  if (first.substr(hash + 1, device - hash - 1) != short_hash(result.choices))
    refuse("was changed or cut off");
  return result;
}

std::string prepare_algorithms(RankContext& context,
                               const TrainOptions& options,
                               const std::string& checkpoint) {
  return text_of_rank_0(context.host_communicator(),
                        [&] { return prepare(context.backend(), options, checkpoint); });
}

}  // namespace lockstep
