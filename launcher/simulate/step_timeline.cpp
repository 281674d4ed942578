// SPDX-License-Identifier: Apache-2.0
#include "launcher/simulate/step_timeline.h"

#include <fmt/format.h>

namespace lockstep {
namespace {

using report::Lane;
using simulation::LinkUse;
using simulation::SimulatedStep;
using simulation::Span;

constexpr const char* kTracks[] = {"compute stream", "communication stream", "network stream"};
constexpr std::size_t kMaxLinks = 64;

/// Whether a span lies in the step, at least in part.
bool is_in(const SimulatedStep& step, double begin_s, double end_s) {
  return end_s > step.begin && begin_s < step.end;
}

Lane stream_lane(int rank, int track, const std::vector<Span>& spans, const SimulatedStep& step) {
  Lane lane{fmt::format("rank {}", rank), kTracks[track], {}};
  for (const Span& span : spans)
    if (int(span.track) == track && is_in(step, span.begin, span.end))
      lane.spans.push_back({span.name, span.name, span.begin, span.end});
  return lane;
}

Lane link_lane(std::size_t host, const std::vector<LinkUse>& uses, const SimulatedStep& step) {
  Lane lane{"network", fmt::format("host {}", host), {}};
  for (const LinkUse& use : uses)
    if (is_in(step, use.begin, use.end))
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
  if (result.steps.empty()) return timeline;
  const SimulatedStep& step = result.steps.back();
  timeline.begin_s = step.begin;
  for (const auto& [rank, spans] : result.spans)
    for (int track = 0; track < int(std::size(kTracks)); ++track)
      timeline.lanes.push_back(stream_lane(rank, track, spans, step));
  for (std::size_t host = 0; host < result.link_uses.size() && host < kMaxLinks; ++host)
    timeline.lanes.push_back(link_lane(host, result.link_uses[host], step));
  timeline.description =
      fmt::format("Predicted: the streams of {} of {} ranks, and the links of {} of {} hosts",
                  result.spans.size(),
                  result.ends.size(),
                  std::min(result.link_uses.size(), kMaxLinks),
                  result.link_uses.size());
  return timeline;
}

}  // namespace lockstep
