// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/place.h"

#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "core/host/cpu_list.h"
#include "core/host/machine.h"
#include "launcher/doctor/host.h"

namespace lockstep::doctor {
namespace {

/// A list is cut after its last whole entry.
template <std::size_t N>
void put_list(char (&to)[N], const std::string& list) {
  std::size_t length = list.size();
  if (length >= N) {
    const std::size_t comma = list.rfind(',', N - 1);
    length = comma == std::string::npos ? 0 : comma;
  }
  std::copy_n(list.begin(), length, to);
}

}  // namespace

Place place_of(const Environment& environment, const GpuFacts& facts) {
  Place place;
  const std::string host = host_name();
  std::copy_n(host.begin(), std::min(host.size(), sizeof place.host - 1), place.host);
  put_list(place.threads, format_cpu_list(environment.allowed_threads()));
  std::string gpus;
  for (const Gpu& gpu : facts.gpus) gpus += (gpus.empty() ? "" : ",") + gpu.id;
  put_list(place.gpus, gpus);
  return place;
}

void resolve(Environment& environment, std::span<const Place> places, int rank) {
  const std::string_view host = places[std::size_t(rank)].host;
  environment.ranks = int(places.size());
  environment.ranks_here = environment.local_rank = 0;
  std::vector<int> threads;
  std::set<std::string> gpus;
  for (std::size_t other = 0; other < places.size(); ++other) {
    const Place& place = places[other];
    if (place.host != host) continue;
    environment.local_rank += int(other) < rank;
    ++environment.ranks_here;
    const std::vector<int> more = parse_cpu_list(place.threads);
    threads.insert(threads.end(), more.begin(), more.end());
    std::istringstream entries(place.gpus);
    for (std::string entry; std::getline(entries, entry, ',');) gpus.insert(entry);
  }
  environment.cores_here = usable_cores(environment, threads);
  environment.gpus_here = int(gpus.size());
}

}  // namespace lockstep::doctor
