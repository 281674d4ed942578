// SPDX-License-Identifier: Apache-2.0
#include "parallel/profile_report.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/exec/roofline.h"

namespace lockstep {
namespace {

/// Chrome's trace event format: https://chromium.googlesource.com/catapult, "Trace Event Format".
/// Rows: process = rank, thread = stream. Times in microseconds.
std::string trace_events(const Profiler& profiler, int rank) {
  constexpr const char* kStreams[] = {"compute", "communication"};
  std::string text = fmt::format(
      R"({{"ph":"M","name":"process_name","pid":{0},"args":{{"name":"rank {0}"}}}})", rank);
  for (int stream = 0; stream < 2; ++stream)
    text += fmt::format(
        ",\n"
        R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":"{}"}}}})",
        rank,
        stream,
        kStreams[stream]);
  for (const Profiler::Event& event : profiler.events()) {
    const ProfiledWork& work = profiler.works()[std::size_t(event.work)];
    const nlohmann::json layer = work.path;
    const std::string common = fmt::format(R"("name":"{}","cat":"{}","pid":{},"tid":{})",
                                           work.name,
                                           kStreams[int(work.stream)],
                                           rank,
                                           int(work.stream));
    const std::string arguments =
        fmt::format(R"("args":{{"layer":{},"flops":{:.0f},"bytes":{:.0f}}})",
                    layer.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
                    work.cost.flops,
                    work.cost.bytes);
    // Buckets are under way at the same time, which only asynchronous events may be.
    if (work.stream == ProfileStream::communication)
      text += fmt::format(
          ",\n"
          R"({{"ph":"b",{0},"id":{1},"ts":{2:.3f},{4}}},{{"ph":"e",{0},"id":{1},"ts":{3:.3f}}})",
          common,
          event.work,
          event.begin * 1e6,
          event.end * 1e6,
          arguments);
    else
      text += fmt::format(
          ",\n"
          R"({{"ph":"X",{},"ts":{:.3f},"dur":{:.3f},{}}})",
          common,
          event.begin * 1e6,
          (event.end - event.begin) * 1e6,
          arguments);
  }
  return text;
}

std::string gather_text(Communicator& communicator, const std::string& own) {
  const std::uint64_t size = own.size();
  std::vector<std::uint64_t> sizes(std::size_t(communicator.size()));
  communicator.all_gather(&size, sizes.data(), sizeof size);
  const std::vector<std::size_t> bytes(sizes.begin(), sizes.end());
  std::string all(std::accumulate(bytes.begin(), bytes.end(), std::size_t{0}), '\0');
  communicator.all_gather_v(own.data(), all.data(), bytes);
  return all;
}

/// A line of the table while it is summed up; the least time the peaks allow stands in `roofline`.
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
  line.roofline += double(total.runs) * least_seconds(work.cost, work.bf16, peaks);
}

std::vector<ProfileLine> finish(const Lines& lines, std::int64_t steps) {
  std::vector<ProfileLine> result;
  double seconds = 0;
  for (const auto& [name, line] : lines) seconds += line.seconds;
  for (const auto& [name, line] : lines) {
    if (line.runs_a_step == 0) continue;
    result.push_back(line);
    result.back().share = line.seconds / seconds;
    result.back().runs_a_step = line.runs_a_step / double(steps);
    result.back().roofline = line.roofline / line.seconds;
  }
  std::ranges::sort(result, std::ranges::greater(), &ProfileLine::seconds);
  return result;
}

}  // namespace

ProfileRecord make_profile(RankContext& context, const Profiler& profiler, std::int64_t steps) {
  ProfileRecord record;
  Communicator& communicator = context.communicator();
  communicator.barrier();  // all ranks measure at once, as they train
  record.peaks = context.backend().measure_peaks();
  Lines operators, nodes;
  for (std::size_t i = 0; i < profiler.works().size(); ++i) {
    const ProfiledWork& work = profiler.works()[i];
    // A bucket is on its way while the rank computes; the wait has a line of its own.
    if (work.stream != ProfileStream::compute) continue;
    add(operators, work.name, work, profiler.totals()[i], record.peaks);
    add(nodes,
        work.path.empty() ? work.name : work.path + " " + work.name,
        work,
        profiler.totals()[i],
        record.peaks);
  }
  record.lines = finish(operators, steps);
  record.nodes = finish(nodes, steps);
  const std::string events = trace_events(profiler, communicator.rank());
  record.trace = "[\n" +
                 gather_text(communicator, communicator.rank() == 0 ? events : ",\n" + events) +
                 "\n]\n";
  return record;
}

}  // namespace lockstep
