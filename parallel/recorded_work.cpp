// SPDX-License-Identifier: Apache-2.0
#include "parallel/recorded_work.h"

#include <algorithm>

#include "core/base/error.h"

namespace lockstep {

void RecordedWork::replay() const {
  for (const Part& part : parts_) {
    if (part.segment != nullptr)
      part.segment->launch();
    else
      part.on_host();
  }
}

WorkRecorder::WorkRecorder(Backend& backend, Progress& progress)
    : backend_(backend), progress_(&progress) {
  begin();
}

WorkRecorder::WorkRecorder(Backend& backend, int done)
    : backend_(backend), progress_(nullptr), left_to_skip_(done) {
  LOCKSTEP_ASSERT(done > 0);
  begin();
}

WorkRecorder::~WorkRecorder() {
  if (recording_) abandon();
}

void WorkRecorder::begin() {
  backend_.begin_graph();
  recording_ = true;
}

void WorkRecorder::abandon() noexcept {
  recording_ = false;
  backend_.abandon_graph();
}

std::unique_ptr<DeviceGraph> WorkRecorder::end_segment() {
  recording_ = false;
  std::unique_ptr<DeviceGraph> segment = backend_.end_graph();
  return segment->nodes() > 0 ? std::move(segment) : nullptr;
}

void WorkRecorder::on_host(std::function<void()> work) {
  if (left_to_skip_ > 0) {
    abandon();
    if (--left_to_skip_ > 0) begin();
    return;
  }
  if (progress_ == nullptr) return work();
  if (std::unique_ptr<DeviceGraph> segment = end_segment()) {
    segment->launch();
    work_.parts_.push_back({.segment = std::move(segment), .on_host = {}});
  }
  progress_->host_works = true;
  work();
  work_.parts_.push_back({.segment = nullptr, .on_host = std::move(work)});
  *progress_ = {.cuts = progress_->cuts + 1, .host_works = false};
  begin();
}

RecordedWork WorkRecorder::finish() {
  if (std::unique_ptr<DeviceGraph> segment = end_segment())
    work_.parts_.push_back({.segment = std::move(segment), .on_host = {}});
  return std::move(work_);
}

void WorkRecorder::launch_last(const RecordedWork& work) {
  if (!work.parts_.empty() && work.parts_.back().segment != nullptr)
    work.parts_.back().segment->launch();
}

const RecordedWork* RecordedPieces::find(const PieceKey& key) const {
  const auto known = pieces_.find(key);
  return known != pieces_.end() && known->second.work ? &*known->second.work : nullptr;
}

std::size_t RecordedPieces::recorded() const {
  return std::size_t(std::ranges::count_if(
      pieces_, [](const auto& piece) { return piece.second.work.has_value(); }));
}

std::optional<RecordedWork> RecordedPieces::try_to_record(const Attempt& attempt,
                                                          WorkRecorder::Progress& progress) {
  try {
    WorkRecorder recorder(backend_, progress);
    attempt.work(recorder);
    return recorder.finish();
  } catch (const EnvironmentError& error) {
    if (progress.host_works) throw;
    why_not_ = error.what();
  } catch (const OutOfMemory& error) {
    if (progress.host_works) throw;
    why_not_ = error.what();
  } catch (const CommError& error) {
    if (progress.host_works) throw;
    throw CommError(error.what(),
                    fmt::format("it failed while a step was recorded as a graph: "
                                "LOCKSTEP_GRAPH=0 goes without graphs; {}",
                                error.hint()));
  }
  return std::nullopt;
}

bool RecordedPieces::record(const PieceKey& key, const Attempt& attempt) {
  has_failed_ = false;
  const auto [place, is_new] = pieces_.try_emplace(key);
  Piece& piece = place->second;
  if (is_new || piece.fails) return false;
  WorkRecorder::Progress progress;
  std::optional<RecordedWork> work = try_to_record(attempt, progress);
  if (!work && progress.cuts > 0) {
    piece.fails = has_failed_ = true;
    WorkRecorder rest(backend_, progress.cuts);
    attempt.work(rest);
    return true;
  }
  if (!attempt.agree(work.has_value())) {
    LOCKSTEP_ASSERT(progress.cuts == 0);
    if (work) why_not_ = "another rank could not record a step";
    piece.fails = has_failed_ = true;
    return false;
  }
  WorkRecorder::launch_last(*work);
  piece.work = std::move(work);
  return true;
}

}  // namespace lockstep
