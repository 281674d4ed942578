// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "core/io/output_file.h"
#include "launcher/simulate/simulated_runs.h"

namespace lockstep {
namespace {

using nlohmann::json;
using simulation::LinkUse;
using simulation::Span;

constexpr double kMicro = 1e6;
constexpr const char* kTracks[] = {"compute stream", "communication stream", "network stream"};

json name_event(const char* what, int process, int thread, const std::string& name) {
  return {
      {"ph", "M"}, {"name", what}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

json span_event(const std::string& name, int process, int thread, double begin, double end) {
  return {{"ph", "X"},
          {"name", name},
          {"pid", process},
          {"tid", thread},
          {"ts", begin * kMicro},
          {"dur", (end - begin) * kMicro}};
}

}  // namespace

void write_timeline(const std::string& file, const simulation::SimulationResult& result) {
  const double from = result.steps.empty() ? 0 : result.steps.back().begin;
  json events = json::array();
  for (const auto& [rank, spans] : result.spans) {
    events.push_back(name_event("process_name", rank, 0, "rank " + std::to_string(rank)));
    for (int track = 0; track < int(std::size(kTracks)); ++track)
      events.push_back(name_event("thread_name", rank, track, kTracks[track]));
    for (const Span& span : spans)
      if (span.end >= from)
        events.push_back(span_event(span.name, rank, int(span.track), span.begin, span.end));
  }
  const int network = int(result.ends.size());
  events.push_back(name_event("process_name", network, 0, "network"));
  for (std::size_t host = 0; host < result.link_uses.size() && host < 64; ++host) {
    events.push_back(name_event("thread_name", network, int(host), "host " + std::to_string(host)));
    for (const LinkUse& use : result.link_uses[host])
      if (use.end >= from)
        events.push_back(span_event(std::to_string(std::int64_t(use.bytes)) + " bytes",
                                    network,
                                    int(host),
                                    use.begin,
                                    use.end));
  }
  io::replace_file(file, json{{"traceEvents", std::move(events)}}.dump());
}

}  // namespace lockstep
