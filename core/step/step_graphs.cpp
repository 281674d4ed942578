// SPDX-License-Identifier: Apache-2.0
#include "core/step/step_graphs.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/base/parameter_names.h"

namespace lockstep {
namespace {

/// A capture under way. Abandons it where end() was not called, so that the device works as before.
class OpenCapture {
 public:
  explicit OpenCapture(Backend& backend) : backend_(backend) { backend.begin_capture(); }
  ~OpenCapture() {
    if (open_) backend_.abandon_capture();
  }
  OpenCapture(const OpenCapture&) = delete;
  OpenCapture& operator=(const OpenCapture&) = delete;

  std::unique_ptr<DeviceGraph> end() {
    open_ = false;
    return backend_.end_capture();
  }

 private:
  Backend& backend_;
  bool open_ = true;
};

}  // namespace

void run_eagerly(StepSegment& segment) {
  for (const StepPart& part : segment.plan()) segment.run(part, true);
}

StepWay StepGraphs::run(const GraphKey& key, StepSegment& segment) {
  has_failed_ = false;
  drop_other_sizes(key.size);
  const auto [place, is_first] = entries_.try_emplace(key);
  Entry& entry = place->second;
  if (is_first || entry.fails) {
    run_eagerly(segment);
    return StepWay::eager;
  }
  if (!entry.work) return capture(entry, segment);
  for (const Captured& captured : *entry.work) {
    if (captured.graph != nullptr)
      captured.graph->launch();
    else
      segment.run(captured.host_part, false);
  }
  ++replays_;
  return StepWay::replayed;
}

void StepGraphs::drop_other_sizes(int size) {
  if (entries_.empty() || entries_.begin()->first.size == size) return;
  dropped_ = use().graphs;
  backend_.synchronize();
  entries_.clear();
}

// A graph is launched before the host work that follows it; the last one once all ranks have
// theirs.
StepWay StepGraphs::capture(Entry& entry, StepSegment& segment) {
  const std::span<const StepPart> parts(segment.plan());
  std::vector<Captured> work;
  std::size_t end = 0;
  for (std::size_t at = 0; at < parts.size(); at = end) {
    end = at + 1;
    if (parts[at].on_host) {
      segment.run(parts[at], false);
      work.push_back({.graph = nullptr, .host_part = parts[at]});
      continue;
    }
    while (end < parts.size() && !parts[end].on_host) ++end;
    auto graph = try_to_capture(parts.subspan(at, end - at), segment);
    if (!graph && at == 0) {
      segment.agree(false);
      return give_up(entry, segment);
    }
    if (!graph) {
      entry.fails = has_failed_ = true;
      for (const StepPart& part : parts.subspan(at)) segment.run(part, false);
      return StepWay::captured;
    }
    if ((*graph)->nodes() == 0) continue;
    if (end < parts.size()) (*graph)->launch();
    work.push_back({.graph = std::move(*graph), .host_part = {}});
  }
  if (!segment.agree(true)) {
    LOCKSTEP_ASSERT(std::ranges::none_of(parts, &StepPart::on_host));  // those have already run
    why_not_ = "another rank could not capture a step";
    return give_up(entry, segment);
  }
  if (!work.empty() && work.back().graph != nullptr) work.back().graph->launch();
  entry.work = std::move(work);
  return StepWay::captured;
}

std::optional<std::unique_ptr<DeviceGraph>> StepGraphs::try_to_capture(
    std::span<const StepPart> parts, StepSegment& segment) {
  try {
    OpenCapture capture(backend_);
    for (const StepPart& part : parts) segment.run(part, false);
    return capture.end();
  } catch (const EnvironmentError& error) {
    why_not_ = error.what();
  } catch (const OutOfMemory& error) {
    why_not_ = error.what();
  } catch (const CommError& error) {
    throw CommError(as_written(error.what()),
                    fmt::format("it failed while a step was captured as a graph: "
                                "LOCKSTEP_GRAPH=0 trains without graphs; {}",
                                as_written(error.hint())));
  }
  return std::nullopt;
}

StepWay StepGraphs::give_up(Entry& entry, StepSegment& segment) {
  entry.fails = has_failed_ = true;
  segment.undo();
  run_eagerly(segment);
  return StepWay::eager;
}

GraphUse StepGraphs::use() const {
  const auto captured = std::ranges::count_if(
      entries_, [](const auto& entry) { return entry.second.work.has_value(); });
  return {dropped_ + std::uint64_t(captured), replays_, why_not_};
}

}  // namespace lockstep
