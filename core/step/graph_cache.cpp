// SPDX-License-Identifier: Apache-2.0
#include "core/step/graph_cache.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace lockstep {

void CapturedWork::replay() const {
  for (const Part& part : parts_) {
    if (part.graph != nullptr)
      part.graph->launch();
    else
      part.host_work();
  }
}

WorkCapture::WorkCapture(Backend& backend, Progress& progress)
    : backend_(backend), progress_(&progress) {
  begin();
}

WorkCapture::WorkCapture(Backend& backend, int done)
    : backend_(backend), progress_(nullptr), left_to_skip_(done) {
  LOCKSTEP_ASSERT(done > 0);
  begin();
}

WorkCapture::~WorkCapture() {
  if (captures_) abandon();
}

void WorkCapture::begin() {
  backend_.begin_capture();
  captures_ = true;
}

void WorkCapture::abandon() noexcept {
  captures_ = false;
  backend_.abandon_capture();
}

std::unique_ptr<DeviceGraph> WorkCapture::end() {
  captures_ = false;
  std::unique_ptr<DeviceGraph> graph = backend_.end_capture();
  return graph->nodes() > 0 ? std::move(graph) : nullptr;
}

void WorkCapture::cut_for_host(std::function<void()> work) {
  if (left_to_skip_ > 0) {
    abandon();
    if (--left_to_skip_ > 0) begin();
    return;
  }
  if (progress_ == nullptr) return work();
  if (std::unique_ptr<DeviceGraph> graph = end()) {
    graph->launch();
    work_.parts_.push_back({.graph = std::move(graph), .host_work = {}});
  }
  progress_->host_works = true;
  work();
  work_.parts_.push_back({.graph = nullptr, .host_work = std::move(work)});
  *progress_ = {.cuts = progress_->cuts + 1, .host_works = false};
  begin();
}

CapturedWork WorkCapture::finish() {
  if (std::unique_ptr<DeviceGraph> graph = end())
    work_.parts_.push_back({.graph = std::move(graph), .host_work = {}});
  return std::move(work_);
}

void WorkCapture::launch_last(const CapturedWork& work) {
  if (!work.parts_.empty() && work.parts_.back().graph != nullptr)
    work.parts_.back().graph->launch();
}

const CapturedWork* GraphCache::find(const GraphKey& key) const {
  const auto known = entries_.find(key);
  return known != entries_.end() && known->second.work ? &*known->second.work : nullptr;
}

std::size_t GraphCache::size() const {
  return std::size_t(std::ranges::count_if(
      entries_, [](const auto& entry) { return entry.second.work.has_value(); }));
}

std::optional<CapturedWork> GraphCache::try_to_capture(const Attempt& attempt,
                                                       WorkCapture::Progress& progress) {
  try {
    WorkCapture capture(backend_, progress);
    attempt.launch(capture);
    return capture.finish();
  } catch (const EnvironmentError& error) {
    if (progress.host_works) throw;
    why_not_ = error.what();
  } catch (const OutOfMemory& error) {
    if (progress.host_works) throw;
    why_not_ = error.what();
  } catch (const CommError& error) {
    if (progress.host_works) throw;
    throw CommError(error.what(),
                    fmt::format("it failed while a step was captured as a graph: "
                                "LOCKSTEP_GRAPH=0 goes without graphs; {}",
                                error.hint()));
  }
  return std::nullopt;
}

bool GraphCache::capture(const GraphKey& key, const Attempt& attempt) {
  has_failed_ = false;
  const auto [place, is_new] = entries_.try_emplace(key);
  Entry& entry = place->second;
  if (is_new || entry.fails) return false;
  WorkCapture::Progress progress;
  std::optional<CapturedWork> work = try_to_capture(attempt, progress);
  if (!work && progress.cuts > 0) {
    entry.fails = has_failed_ = true;
    WorkCapture rest(backend_, progress.cuts);
    attempt.launch(rest);
    LOCKSTEP_ASSERT(!rest.skips());  // else the rest was thrown away with what had been done
    return true;
  }
  if (!attempt.agree(work.has_value())) {
    LOCKSTEP_ASSERT(progress.cuts == 0);
    if (work) why_not_ = "another rank could not capture a step";
    entry.fails = has_failed_ = true;
    return false;
  }
  WorkCapture::launch_last(*work);
  entry.work = std::move(work);
  return true;
}

}  // namespace lockstep
