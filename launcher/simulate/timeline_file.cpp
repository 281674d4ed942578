// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "launcher/simulate/step_timeline.h"

namespace lockstep {
namespace {

using nlohmann::json;

constexpr double kMicro = 1e6;

json name_event(const char* what, int process, int thread, const std::string& name) {
  return {
      {"ph", "M"}, {"name", what}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

json span_event(const report::Lane::Span& span, int process, int thread) {
  return {{"ph", "X"},
          {"name", span.name},
          {"pid", process},
          {"tid", thread},
          {"ts", span.begin_s * kMicro},
          {"dur", (span.end_s - span.begin_s) * kMicro}};
}

}  // namespace

std::string timeline_json(const report::Timeline& timeline) {
  json events = json::array();
  int process = -1, thread = 0;
  std::string group;
  for (const report::Lane& lane : timeline.lanes) {
    ++thread;
    if (process < 0 || lane.group != group) {
      group = lane.group;
      thread = 0;
      events.push_back(name_event("process_name", ++process, 0, group));
    }
    events.push_back(name_event("thread_name", process, thread, lane.name));
    for (const report::Lane::Span& span : lane.spans)
      events.push_back(span_event(span, process, thread));
  }
  return json{{"traceEvents", std::move(events)}}.dump();
}

}  // namespace lockstep
