// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/network_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fmt/ranges.h>
#include <fstream>
#include <iterator>
#include <map>

#include "core/base/check.h"
#include "core/base/text/suggest.h"
#include "launcher/settings/toml_reader.h"

namespace lockstep {
namespace {

constexpr std::string_view kNetworkKeys[] = {"ranks_per_host",
                                             "inside_latency_us",
                                             "inside_bandwidth_GBps",
                                             "between_latency_us",
                                             "between_bandwidth_GBps"};
constexpr std::string_view kNetworkNames[] = {"nvlink", "ib", "ethernet"};
constexpr std::uintmax_t kMaxNetworkBytes = 64 * 1024;

/// The numbers of a network's file.
class Numbers {
 public:
  Numbers(const std::string& text, const std::string& name) : name_(name) {
    for (const TomlEntry& entry : read_toml(text, "--network " + name)) {
      if (std::ranges::find(kNetworkKeys, entry.key) == std::end(kNetworkKeys)) {
        const std::string best = nearest(entry.key, kNetworkKeys);
        throw ConfigError(fmt::format("--network {}: unknown key '{}'", name, entry.key),
                          best.empty() ? fmt::format("keys are {}", fmt::join(kNetworkKeys, ", "))
                                       : fmt::format("did you mean {}?", best));
      }
      texts_[entry.key] = entry.values.size() == 1 ? entry.values[0] : "a list";
    }
  }

  bool has(std::string_view key) const { return texts_.contains(std::string(key)); }

  double number(std::string_view key, double least, double most) const {
    if (!has(key))
      throw ConfigError(fmt::format("--network {}: {} is missing", name_, key),
                        fmt::format("keys are {}", fmt::join(kNetworkKeys, ", ")));
    const std::string& text = texts_.at(std::string(key));
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    LOCKSTEP_CHECK(error == std::errc() && end == text.data() + text.size() &&
                       std::isfinite(value) && value >= least && value <= most,
                   ConfigError,
                   "--network {}: {} must be a number from {:g} to {:g}, got '{}'",
                   name_,
                   key,
                   least,
                   most,
                   text);
    return value;
  }

  Link link(const std::string& side) const {
    return {number(side + "_latency_us", 0, 1e9) * 1e-6,
            number(side + "_bandwidth_GBps", 1e-6, 1e6) * 1e9};
  }

 private:
  const std::string& name_;
  std::map<std::string, std::string> texts_;
};

}  // namespace

Network parse_network(const std::string& text, const std::string& name) {
  const Numbers numbers(text, name);
  const double ranks = numbers.number("ranks_per_host", 1, 1 << 20);
  LOCKSTEP_CHECK(ranks == std::floor(ranks),
                 ConfigError,
                 "--network {}: ranks_per_host must be a whole number, got {}",
                 name,
                 ranks);
  Network network;
  network.name = name;
  network.words = "as the file says";
  network.ranks_per_host = int(ranks);
  network.between = numbers.link("between");
  const bool alone =
      ranks == 1 && !numbers.has("inside_latency_us") && !numbers.has("inside_bandwidth_GBps");
  network.inside = alone ? network.between : numbers.link("inside");
  return network;
}

Network open_network(const std::string& name_or_file) {
  if (auto network = named_network(name_or_file)) return *network;
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_regular_file(name_or_file, error)) {
    const std::string best = nearest(name_or_file, kNetworkNames);
    throw ConfigError(
        fmt::format("--network '{}' is neither nvlink, ib or ethernet nor a file", name_or_file),
        best.empty() ? std::string("a TOML file has the keys that lockstep plan --help lists")
                     : fmt::format("did you mean {}?", best));
  }
  LOCKSTEP_CHECK(fs::file_size(name_or_file, error) <= kMaxNetworkBytes && !error,
                 ConfigError,
                 "--network {}: too long for the few lines that a network takes",
                 name_or_file);
  std::ifstream stream(name_or_file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  LOCKSTEP_CHECK(stream.good() || stream.eof(),
                 ConfigError,
                 "--network {}: the file cannot be read",
                 name_or_file);
  return parse_network(text, name_or_file);
}

}  // namespace lockstep
