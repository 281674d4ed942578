// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/timeline.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>

namespace lockstep::report {
namespace {

using Span = Lane::Span;

double length_s(const Span& span) { return span.end_s - span.begin_s; }

/// To a nanosecond.
double milliseconds(double seconds) { return std::round(seconds * 1e9) / 1e6; }

/// The longest kMaxLaneSpans, in the order of `spans`.
std::vector<Span> drawn_of(const std::vector<Span>& spans) {
  if (spans.size() <= kMaxLaneSpans) return spans;
  std::vector<std::size_t> order(spans.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(
      order, [&](std::size_t a, std::size_t b) { return length_s(spans[a]) > length_s(spans[b]); });
  order.resize(kMaxLaneSpans);
  std::ranges::sort(order);
  std::vector<Span> drawn;
  for (const std::size_t i : order) drawn.push_back(spans[i]);
  return drawn;
}

/// All kinds of spans; those that take the longest come first, as colours repeat at some time.
std::vector<std::string> kinds_of(const std::vector<Lane>& lanes) {
  std::map<std::string, double> seconds;
  for (const Lane& lane : lanes)
    for (const Span& span : lane.spans) seconds[span.kind] += length_s(span);
  std::vector<std::string> kinds;
  for (const auto& [kind, length] : seconds) kinds.push_back(kind);
  std::ranges::stable_sort(kinds, [&](const std::string& a, const std::string& b) {
    return seconds.at(a) > seconds.at(b);
  });
  return kinds;
}

Json lane_json(const Lane& lane,
               const std::vector<Span>& drawn,
               double begin_s,
               const std::vector<std::string>& kinds) {
  Json spans = Json::array();
  for (const Span& span : drawn)
    spans.push_back({{"name", span.name},
                     {"kind", std::ranges::find(kinds, span.kind) - kinds.begin()},
                     {"begin", milliseconds(span.begin_s - begin_s)},
                     {"length", milliseconds(length_s(span))}});
  return {{"group", lane.group}, {"name", lane.name}, {"spans", std::move(spans)}};
}

std::vector<std::string> row_of(const Lane& lane, double begin_s, std::size_t omitted) {
  std::vector<std::string> row{lane.group + ", " + lane.name,
                               format_number(double(lane.spans.size())),
                               omitted > 0 ? format_number(double(omitted)) : ""};
  double busy = 0, first = HUGE_VAL, last = -HUGE_VAL;
  for (const Span& span : lane.spans) {
    busy += length_s(span);
    first = std::min(first, span.begin_s);
    last = std::max(last, span.end_s);
  }
  row.push_back(format_number(milliseconds(busy)));
  row.push_back(format_number(milliseconds(first - begin_s)));
  row.push_back(format_number(milliseconds(last - begin_s)));
  return row;
}

}  // namespace

Json timeline_block(const Timeline& timeline) {
  Json lanes = Json::array();
  const std::vector<std::string> kinds = kinds_of(timeline.lanes);
  double begin = HUGE_VAL, end = -HUGE_VAL;
  std::size_t all_omitted = 0;
  Table table{timeline.title + ": spans of each row",
              {"row", "spans", "not drawn", "busy ms", "first begins at ms", "last ends at ms"},
              {}};
  for (const Lane& lane : timeline.lanes) {
    const std::vector<Span> drawn = drawn_of(lane.spans);
    const std::size_t omitted = lane.spans.size() - drawn.size();
    all_omitted += omitted;
    lanes.push_back(lane_json(lane, drawn, timeline.begin_s, kinds));
    table.rows.push_back(row_of(lane, timeline.begin_s, omitted));
    for (const Span& span : drawn) {
      begin = std::min(begin, span.begin_s);
      end = std::max(end, span.end_s);
    }
  }
  if (!(end > begin)) return nullptr;
  return {{"kind", "timeline"},
          {"id", timeline.id},
          {"title", timeline.title},
          {"description", timeline.description},
          {"x_label", timeline.x_label},
          {"begin", milliseconds(std::min(begin - timeline.begin_s, 0.0))},
          {"end", milliseconds(end - timeline.begin_s)},
          {"kinds", kinds},
          {"lanes", std::move(lanes)},
          {"note",
           all_omitted == 0
               ? std::string()
               : fmt::format("The {} shortest spans of rows with more than {} are not drawn.",
                             format_number(double(all_omitted)),
                             format_number(double(kMaxLaneSpans)))},
          {"table", block_of(table)}};
}

}  // namespace lockstep::report
