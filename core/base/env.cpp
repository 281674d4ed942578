// SPDX-License-Identifier: Apache-2.0
#include "core/base/env.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <initializer_list>
#include <string_view>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include "core/base/text/suggest.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

constexpr std::string_view kPrefix = "LOCKSTEP_";

struct Entry {
  std::string_view name;
  std::optional<std::string> Env::*field;
};

constexpr std::array kEntries = {
    Entry{"LOCKSTEP_RANK", &Env::rank},
    Entry{"LOCKSTEP_WORLD_SIZE", &Env::world_size},
    Entry{"LOCKSTEP_LOCAL_RANK", &Env::local_rank},
    Entry{"LOCKSTEP_STARTED", &Env::started},
    Entry{"LOCKSTEP_RESTARTED", &Env::restarted},
    Entry{"LOCKSTEP_SNAPSHOTS", &Env::snapshots},
    Entry{"LOCKSTEP_SURVIVORS", &Env::survivors},
    Entry{"LOCKSTEP_TEST_DATA", &Env::test_data},
    Entry{"LOCKSTEP_TEST_SEED", &Env::test_seed},
    Entry{"LOCKSTEP_DUMP", &Env::dump},
    Entry{"LOCKSTEP_PLAN", &Env::plan},
    Entry{"LOCKSTEP_SYNC", &Env::sync},
    Entry{"LOCKSTEP_NAN_CHECK", &Env::nan_check},
    Entry{"LOCKSTEP_CHECK_COLLECTIVES", &Env::check_collectives},
    Entry{"LOCKSTEP_CLEAR", &Env::clear},
    Entry{"LOCKSTEP_GRAPH", &Env::graph},
    Entry{"LOCKSTEP_DEPENDENT_LAUNCH", &Env::dependent_launch},
    Entry{"LOCKSTEP_NCCL", &Env::nccl},
    Entry{"LOCKSTEP_CUDA_PATH", &Env::cuda_path},
    Entry{"LOCKSTEP_CHECKPOINT_PARTS", &Env::checkpoint_parts},
    Entry{"LOCKSTEP_FAULT", &Env::fault},
};

[[noreturn]] void unknown_variable(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Entry& entry : kEntries) names.push_back(entry.name.substr(kPrefix.size()));
  const std::string best = nearest(name.substr(kPrefix.size()), names);
  throw ConfigError(fmt::format("unknown environment variable {}", name),
                    best.empty() ? fmt::format("unset it; Lockstep reads no variable like it")
                                 : fmt::format("did you mean {}{}?", kPrefix, best));
}

void check_among(std::string_view name,
                 const std::optional<std::string>& value,
                 std::initializer_list<std::string_view> known) {
  if (value && std::ranges::find(known, *value) == known.end())
    throw ConfigError(fmt::format("{} is '{}'", name, *value),
                      fmt::format("it is one of {}", fmt::join(known, ", ")));
}

void check_number(std::string_view name, const std::optional<std::string>& value) {
  if (!value) return;
  std::uint32_t number = 0;
  const char* const end = value->data() + value->size();
  if (const auto read = std::from_chars(value->data(), end, number);
      read.ec != std::errc() || read.ptr != end)
    throw ConfigError(fmt::format("{} is '{}'", name, *value),
                      "it is a number from 0 to 4294967295");
}

}  // namespace

Env parse_env(const VariableMap& variables) {
  Env result;
  for (const auto& [name, value] : variables) {
    if (!name.starts_with(kPrefix)) continue;
    const Entry* found = nullptr;
    for (const Entry& entry : kEntries)
      if (entry.name == name) found = &entry;
    if (found == nullptr) unknown_variable(name);
    if (!value.empty()) result.*(found->field) = value;
  }
  check_among("LOCKSTEP_PLAN", result.plan, {"off", "poison"});
  check_among("LOCKSTEP_NCCL", result.nccl, {"off", "shared"});
  check_among("LOCKSTEP_CHECKPOINT_PARTS", result.checkpoint_parts, {"small", "large"});
  check_among("LOCKSTEP_SYNC", result.sync, {"0", "1"});
  check_among("LOCKSTEP_NAN_CHECK", result.nan_check, {"0", "1"});
  check_among("LOCKSTEP_CHECK_COLLECTIVES", result.check_collectives, {"0", "1"});
  check_among("LOCKSTEP_GRAPH", result.graph, {"0", "1", "nccl"});
  check_among("LOCKSTEP_DEPENDENT_LAUNCH", result.dependent_launch, {"0", "1"});
  check_among("LOCKSTEP_CLEAR", result.clear, {"0", "1"});
  check_number("LOCKSTEP_TEST_SEED", result.test_seed);
  return result;
}

VariableMap process_variables() {
  VariableMap result;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    result.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return result;
}

const Env& env() {
  static const Env value = parse_env(process_variables());
  return value;
}

}  // namespace lockstep
