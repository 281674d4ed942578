// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch/hosts.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <poll.h>
#include <sstream>
#include <string_view>
#include <utility>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "launcher/launch/host_probe.h"
#include "launcher/processes/shell_text.h"

namespace lockstep {
namespace {

/// As many as a --ranks may be.
constexpr std::int64_t kMaxSlots = 65536;

int slots_from(const std::string& text, const std::string& entry) {
  int slots = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, slots);
  LOCKSTEP_CHECK(error == std::errc() && stop == end && slots >= 1,
                 ConfigError,
                 "--hosts: '{}': expected a number of ranks from 1, got '{}'",
                 as_written(entry),
                 as_written(text));
  return slots;
}

/// Hosts in the order of their first mention.
struct HostList {
  std::vector<Host> hosts;
  std::map<std::string, std::size_t> places;
  std::int64_t slots = 0;
};

void add(HostList& list, const std::string& name, int slots, const std::string& entry) {
  const bool plain =
      plain_for_shell(name) && name[0] != '-' && name.find_first_of(",:/=+%") == std::string::npos;
  LOCKSTEP_CHECK(plain,
                 ConfigError,
                 "--hosts: '{}': expected NAME or NAME:RANKS, where a name has letters, digits, "
                 "'.', '-', '_' and perhaps USER@ in front",
                 as_written(entry));
  list.slots += slots;
  LOCKSTEP_CHECK(list.slots <= kMaxSlots,
                 ConfigError,
                 "--hosts: '{}': more than {} ranks in all",
                 as_written(entry),
                 kMaxSlots);
  const auto [place, added] = list.places.emplace(name, list.hosts.size());
  if (added)
    list.hosts.push_back({name, slots});
  else
    list.hosts[place->second].slots += slots;
}

/// "a", "a:2", "a 2", "a slots=2 max_slots=4"
void add_entry(HostList& hosts, const std::string& entry) {
  std::istringstream words(entry);
  std::string name, word;
  if (!(words >> name)) return;
  int slots = 1;
  const std::size_t colon = name.rfind(':');
  if (colon != std::string::npos) slots = slots_from(name.substr(colon + 1), entry);
  while (words >> word) {
    if (word.starts_with("max_slots=") || word.starts_with("max-slots=")) continue;
    slots = slots_from(word.starts_with("slots=") ? word.substr(6) : word, entry);
  }
  add(hosts, name.substr(0, colon), slots, entry);
}

}  // namespace

std::vector<Host> parse_hosts(const std::string& text) {
  HostList list;
  std::error_code ignored;
  if (std::filesystem::is_regular_file(text, ignored)) {
    std::ifstream file(text);
    for (std::string line; std::getline(file, line);)
      add_entry(list, line.substr(0, line.find('#')));
  } else {
    LOCKSTEP_CHECK(text.find('/') == std::string::npos,
                   ConfigError,
                   "--hosts {}: no such file, and no list of hosts such as a:2,b:2",
                   as_written(text));
    std::istringstream entries(text);
    for (std::string entry; std::getline(entries, entry, ',');) add_entry(list, entry);
  }
  LOCKSTEP_CHECK(!list.hosts.empty(), ConfigError, "--hosts {} names no host", as_written(text));
  return std::move(list.hosts);
}

std::string to_string(const std::vector<Host>& hosts) {
  std::string text;
  for (const Host& host : hosts)
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", host.name, host.slots);
  return text;
}

int slots_of(const std::vector<Host>& hosts) {
  int slots = 0;
  for (const Host& host : hosts) slots += host.slots;
  return slots;
}

std::vector<Host> answering_hosts(const std::vector<Host>& hosts,
                                  const ProbeProgram& program,
                                  int connect_s) {
  std::vector<HostProbe> probes;
  probes.reserve(hosts.size());
  for (const Host& host : hosts) probes.emplace_back(host.name, program, connect_s);
  std::vector<Host> result;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    std::optional<bool> answer;
    while (!(answer = probes[i].answer())) poll(nullptr, 0, 10);
    if (*answer) result.push_back(hosts[i]);
  }
  return result;
}

}  // namespace lockstep
