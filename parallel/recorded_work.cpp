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

WorkRecorder::WorkRecorder(Backend& backend) : backend_(backend) {
  backend_.begin_graph();
  recording_ = true;
}

WorkRecorder::~WorkRecorder() {
  if (recording_) backend_.abandon_graph();
}

void WorkRecorder::end_segment() {
  recording_ = false;
  std::unique_ptr<DeviceGraph> segment = backend_.end_graph();
  if (segment->nodes() == 0) return;
  segment->launch();
  work_.parts_.push_back({.segment = std::move(segment), .on_host = {}});
}

void WorkRecorder::on_host(std::function<void()> work) {
  end_segment();
  work();
  work_.parts_.push_back({.segment = nullptr, .on_host = std::move(work)});
  backend_.begin_graph();
  recording_ = true;
}

RecordedWork WorkRecorder::finish() {
  end_segment();
  return std::move(work_);
}

const RecordedWork* RecordedPieces::find(const PieceKey& key) const {
  const auto known = pieces_.find(key);
  return known != pieces_.end() && known->second ? &*known->second : nullptr;
}

std::size_t RecordedPieces::recorded() const {
  return std::size_t(
      std::ranges::count_if(pieces_, [](const auto& piece) { return piece.second.has_value(); }));
}

bool RecordedPieces::record(const PieceKey& key, const std::function<void(WorkRecorder&)>& work) {
  const auto [piece, is_new] = pieces_.try_emplace(key);
  if (is_new) return false;
  bool has_launched = false;
  try {
    WorkRecorder recorder(backend_);
    try {
      work(recorder);
      piece->second = recorder.finish();
    } catch (...) {
      has_launched = recorder.has_launched();
      throw;
    }
    return true;
  } catch (const Error& error) {
    if (has_launched) throw;
    why_not_ = error.what();
    return false;
  }
}

}  // namespace lockstep
