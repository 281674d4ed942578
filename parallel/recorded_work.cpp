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

WorkRecorder::WorkRecorder(Backend& backend, bool& has_done_work)
    : backend_(backend), has_done_work_(has_done_work) {
  backend_.begin_graph();
  recording_ = true;
}

WorkRecorder::~WorkRecorder() {
  if (recording_) backend_.abandon_graph();
}

std::unique_ptr<DeviceGraph> WorkRecorder::end_segment() {
  recording_ = false;
  std::unique_ptr<DeviceGraph> segment = backend_.end_graph();
  return segment->nodes() > 0 ? std::move(segment) : nullptr;
}

void WorkRecorder::on_host(std::function<void()> work) {
  std::unique_ptr<DeviceGraph> segment = end_segment();
  has_done_work_ = true;
  if (segment != nullptr) {
    segment->launch();
    work_.parts_.push_back({.segment = std::move(segment), .on_host = {}});
  }
  work();
  work_.parts_.push_back({.segment = nullptr, .on_host = std::move(work)});
  backend_.begin_graph();
  recording_ = true;
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

RecordedWork RecordedPieces::record_once(const Attempt& attempt, bool& has_done_work) {
  WorkRecorder recorder(backend_, has_done_work);
  attempt.work(recorder);
  return recorder.finish();
}

bool RecordedPieces::record(const PieceKey& key, const Attempt& attempt) {
  has_failed_ = false;
  const auto [place, is_new] = pieces_.try_emplace(key);
  Piece& piece = place->second;
  if (is_new || piece.fails) return false;
  std::optional<RecordedWork> work;
  bool has_done_work = false;
  const auto fail = [&](const Error& error) {
    if (has_done_work)
      throw Error(error.what(), "LOCKSTEP_GRAPH=0 goes without recording", error.exit_code());
    why_not_ = error.what();
  };
  try {
    work = record_once(attempt, has_done_work);
  } catch (const EnvironmentError& error) {
    fail(error);
  } catch (const OutOfMemory& error) {
    fail(error);
  }
  if (!attempt.agree(work.has_value())) {
    if (work) why_not_ = "another rank could not record a step";
    piece.fails = has_failed_ = true;
    return false;
  }
  WorkRecorder::launch_last(*work);
  piece.work = std::move(work);
  return true;
}

}  // namespace lockstep
