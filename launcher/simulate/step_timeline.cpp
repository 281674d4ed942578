// SPDX-License-Identifier: Apache-2.0
#include "launcher/simulate/step_timeline.h"

#include <fmt/format.h>

namespace lockstep {
namespace {

using report::Lane;
using simulation::LinkUse;
using simulation::Span;

constexpr const char* kTracks[] = {"compute stream", "communication stream", "network stream"};
constexpr std::size_t kMaxLinks = 64;

Lane stream_lane(int rank, int track, const std::vector<Span>& spans, double from_s) {
  Lane lane{fmt::format("rank {}", rank), kTracks[track], {}};
  for (const Span& span : spans)
    if (int(span.track) == track && span.end > from_s)
      lane.spans.push_back({span.name, span.name, span.begin, span.end});
  return lane;
}

Lane link_lane(std::size_t host, const std::vector<LinkUse>& uses, double from_s) {
  Lane lane{"network", fmt::format("host {}", host), {}};
  for (const LinkUse& use : uses)
    if (use.end > from_s)
      lane.spans.push_back({fmt::format("{} bytes", std::int64_t(use.bytes)),
                            "sent to other hosts",
                            use.begin,
                            use.end});
  return lane;
}

}  // namespace

report::Timeline last_step_of(const simulation::SimulationResult& result) {
  report::Timeline timeline{.id = "step", .title = "The last simulated step"};
  timeline.x_label = "milliseconds since the step began";
  timeline.begin_s = result.steps.empty() ? 0 : result.steps.back().begin;
  for (const auto& [rank, spans] : result.spans)
    for (int track = 0; track < int(std::size(kTracks)); ++track)
      timeline.lanes.push_back(stream_lane(rank, track, spans, timeline.begin_s));
  for (std::size_t host = 0; host < result.link_uses.size() && host < kMaxLinks; ++host)
    timeline.lanes.push_back(link_lane(host, result.link_uses[host], timeline.begin_s));
  timeline.description =
      fmt::format("Predicted: the streams of {} of {} ranks, and the links of {} of {} hosts",
                  result.spans.size(),
                  result.ends.size(),
                  std::min(result.link_uses.size(), kMaxLinks),
                  result.link_uses.size());
  return timeline;
}

}  // namespace lockstep
