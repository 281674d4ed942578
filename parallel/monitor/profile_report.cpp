// SPDX-License-Identifier: Apache-2.0
#include "parallel/monitor/profile_report.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/exec/communicator.h"
#include "core/exec/roofline.h"
#include "core/profile/kernel_times.h"
#include "lockstep/error.h"
#include "parallel/comm/collective_strings.h"
#include "parallel/comm/error_serialization.h"
#include "parallel/monitor/profile_trace.h"

namespace lockstep {
namespace {

/// A line of the table while it is summed up; the least time the peaks allow is in `roofline`.
using Lines = std::map<std::string, ProfileLine>;

void add(Lines& lines,
         const std::string& name,
         const ProfiledWork& work,
         const Profiler::Total& total,
         const DevicePeaks& peaks) {
  ProfileLine& line = lines[name];
  line.name = name;
  line.seconds += total.seconds;
  line.runs_a_step += double(total.runs);
  line.flops += work.cost.flops * double(total.runs);
  line.bytes += work.cost.bytes * double(total.runs);
  line.roofline += double(total.runs) * min_seconds(work.cost, work.bf16, peaks);
}

double seconds_of(const Lines& lines) {
  double seconds = 0;
  for (const auto& [name, line] : lines) seconds += line.seconds;
  return seconds;
}

/// `seconds`: what shares are of.
std::vector<ProfileLine> finish(const Lines& lines, std::int64_t steps, double seconds) {
  std::vector<ProfileLine> result;
  for (const auto& [name, line] : lines) {
    if (line.runs_a_step == 0 && line.seconds == 0) continue;
    result.push_back(line);
    result.back().share = line.seconds / seconds;
    result.back().runs_a_step = line.runs_a_step / double(steps);
    result.back().roofline = line.roofline / line.seconds;
  }
  std::ranges::sort(result, std::ranges::greater(), &ProfileLine::seconds);
  return result;
}

std::string node_name(const ProfiledWork& work) {
  return work.path.empty() ? work.name : work.path + " " + work.name;
}

struct Tables {
  Lines operators, nodes;
};

/// What the host timed. A bucket is on its way while the rank computes; the wait has a line of its
/// own.
Tables host_tables(const Profiler& profiler, const DevicePeaks& peaks) {
  Tables tables;
  for (std::size_t i = 0; i < profiler.works().size(); ++i) {
    const ProfiledWork& work = profiler.works()[i];
    if (work.stream != ProfileStream::compute) continue;
    add(tables.operators, work.name, work, profiler.totals()[i], peaks);
    add(tables.nodes, node_name(work), work, profiler.totals()[i], peaks);
  }
  return tables;
}

/// What the device timed, and the rest of the run, in which it did nothing.
Tables device_tables(const Profiler& profiler,
                     const DeviceActivities& device,
                     const DevicePeaks& peaks) {
  Tables tables;
  const auto take =
      [&](const ProfiledWork& work, std::int64_t runs, const DeviceActivities::Total& total) {
        if (total.activities == 0) return;
        add(tables.operators, work.name, work, {runs, total.seconds}, peaks);
        add(tables.nodes, node_name(work), work, {runs, total.seconds}, peaks);
      };
  for (std::size_t i = 0; i < profiler.works().size(); ++i)
    take(profiler.works()[i], profiler.totals()[i].runs, device.total(int(i)));
  take({.name = "other", .path = "", .cost = {}}, 0, device.other());
  const double idle = std::max(0.0, profiler.seconds() - device.busy_seconds());
  for (Lines* lines : {&tables.operators, &tables.nodes})
    add(*lines, "idle", {.name = "idle", .path = "", .cost = {}}, {0, idle}, peaks);
  return tables;
}

}  // namespace

void start_profile(RankContext& context,
                   Profiler& profiler,
                   std::int64_t first_step,
                   std::span<TrainObserver* const> observers) {
  profiler.start(first_step);
  std::string own;  // why this rank's device cannot be traced
  try {
    if (auto tracer = context.backend().make_tracer()) profiler.trace_device(std::move(tracer));
  } catch (const EnvironmentError&) {
    own = serialized_error_text(serialize_error(std::current_exception()));
  }
  // A rank that waits for each kernel would hold up the others: all trace, or none.
  const FirstText refused = first_text(context.host_communicator(), own);
  if (refused.rank >= 0) profiler.give_up_device();
  profiler.begin();
  if (refused.rank < 0) return;
  const auto error = nlohmann::json::parse(refused.text);
  const std::string who = context.size() == 1 ? "" : fmt::format("rank {}: ", refused.rank);
  for (TrainObserver* observer : observers)
    observer->on_profile_without_device(who + error.at("error").get<std::string>(),
                                        error.at("hint").get<std::string>());
}

void stop_profile(RankContext& context, Profiler& profiler) {
  context.backend().synchronize();
  profiler.stop();
}

ProfileRecord make_profile(RankContext& context, Profiler& profiler, std::int64_t steps) {
  ProfileRecord record;
  Communicator& communicator = context.communicator();
  communicator.barrier();  // all ranks measure at once, as they train
  record.peaks = context.backend().measure_peaks();
  record.dropped = profiler.dropped();
  const DeviceActivities* device = profiler.device();
  if (device != nullptr) {
    record.by_device = true;
    record.lost = device->lost();
    record.dropped += device->dropped();
  }
  const Tables tables = device != nullptr ? device_tables(profiler, *device, record.peaks)
                                          : host_tables(profiler, record.peaks);
  const double whole = device != nullptr ? profiler.seconds() : seconds_of(tables.operators);
  record.lines = finish(tables.operators, steps, whole);
  record.nodes = finish(tables.nodes, steps, whole);
  const bool gpu = !context.backend().memory().pool.empty();
  record.kernel_times =
      to_json(kernel_times_of(profiler, record.peaks, gpu, context.communicator().size()));
  const std::string events = trace_events(profiler, communicator.rank());
  record.trace = fmt::format("[\n{}\n]\n", fmt::join(gather_strings(communicator, events), ",\n"));
  return record;
}

}  // namespace lockstep
