// SPDX-License-Identifier: Apache-2.0
#include "parallel/training/memory_snapshots.h"

#include <fmt/format.h>
#include <utility>

#include "core/host/machine.h"
#include "core/io/checkpoint/checkpoint_state.h"
#include "core/step/saved/saved_arrays.h"
#include "lockstep/error.h"
#include "parallel/comm/collective_strings.h"

namespace lockstep {

MemorySnapshots::MemorySnapshots(Communicator& ranks,
                                 const SaveAgreement& agreement,
                                 const CheckpointOptions& options,
                                 const SavedArrays& saved)
    : ranks_(ranks), agreement_(agreement), folder_(options.snapshot_folder) {
  if (!agreement.from_first(!folder_.empty())) return;
  hosts_ = find_snapshot_hosts(ranks, folder_);
  why_none_ = hosts_.why_none;
  if (!why_none_.empty()) return;
  by_host_ = hosts_.several();
  why_none_ = first_text(ranks, lack(saved)).text;
  any_ = why_none_.empty();
  if (!any_) return;
  if (by_host_) {
    divide(saved);
    share_texts(options);
  }
  if (agreement.leads()) pace_.emplace(options.snapshot_seconds, MonotonicClock::now());
}

std::size_t MemorySnapshots::copy_bytes(const SavedArrays& saved, int ranks_of_host, int member) {
  return copied_bytes(saved, snapshot_parts(saved, ranks_of_host)[std::size_t(member)]);
}

bool MemorySnapshots::leads_host() const {
  return hosts_.leaders[std::size_t(ranks_.rank())] == ranks_.rank();
}

/// Of memory on this rank's host, in words; empty: there is none, or another rank says so.
std::string MemorySnapshots::lack(const SavedArrays& saved) const {
  if (!leads_host()) return {};
  const FlatRange all{.offset = 0, .elems = saved.space.elems};
  const std::size_t bytes = copied_bytes(saved, all);
  const std::string reason = lack_of_room(folder_, bytes, by_host_ ? bytes : 0).value_or("");
  if (reason.empty() || !by_host_) return reason;
  return fmt::format("rank {} on {}: {}", ranks_.rank(), host_name(), reason);
}

void MemorySnapshots::divide(const SavedArrays& saved) {
  parts_.resize(std::size_t(ranks_.size()));
  for (int leader = 0; leader < ranks_.size(); ++leader) {
    if (hosts_.leaders[std::size_t(leader)] != leader) continue;
    const std::vector<int> members = hosts_.ranks_on_host_of(leader);
    const std::vector<FlatRange> of_host = snapshot_parts(saved, int(members.size()));
    for (std::size_t m = 0; m < members.size(); ++m) parts_[std::size_t(members[m])] = of_host[m];
  }
  copy_.emplace(saved, parts_, ranks_.rank());
  copy_bytes_ = copied_bytes(saved, parts_[std::size_t(ranks_.rank())]);
}

/// They do not change during a run.
void MemorySnapshots::share_texts(const CheckpointOptions& options) {
  const std::size_t count = agreement_.from_first(options.texts.size());
  auto own = options.texts.begin();
  for (std::size_t i = 0; i < count; ++i) {
    const bool leads = agreement_.leads();
    std::string name = broadcast_string(ranks_, leads ? own->first : std::string());
    std::string text = broadcast_string(ranks_, leads ? own->second : std::string());
    if (leads) ++own;
    if (leads_host()) texts_.emplace(std::move(name), std::move(text));
  }
}

io::CheckpointWriters MemorySnapshots::writers(std::int64_t number) const {
  return agreement_.writers(parts_, number, hosts_.ranks_on_host_of(ranks_.rank()));
}

bool MemorySnapshots::share(io::CheckpointContent& content) const {
  std::string text;
  if (agreement_.leads()) try {
      text = io::to_text(content.state);
    } catch (const Error&) {  // it says so again when the file is written
    }
  text = broadcast_string(ranks_, std::move(text));
  if (text.empty()) return false;
  if (leads_host() && !agreement_.leads()) {
    content.state = io::parse_state("the state of rank 0", text);
    content.texts = texts_;
  }
  return true;
}

void MemorySnapshots::taken(double stall_seconds) {
  if (pace_) pace_->taken(stall_seconds, MonotonicClock::now());
}

void MemorySnapshots::written(double seconds) {
  if (pace_) pace_->written(seconds);
}

void MemorySnapshots::put_off(double stall_seconds) {
  taken(stall_seconds);
  written(0);
}

std::string MemorySnapshots::remove() {
  std::string error;
  if (any_ && leads_host()) try {
      io::remove_checkpoints(folder_);
    } catch (const EnvironmentError& failure) {
      error = failure.what();
    }
  return first_text(ranks_, error).text;
}

}  // namespace lockstep
