// SPDX-License-Identifier: Apache-2.0
#include "parallel/replica/replica_check.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <set>

#include "core/base/rank_list.h"
#include "core/exec/agreement.h"
#include "core/exec/gather_records.h"
#include "core/host/machine.h"
#include "lockstep/error.h"
#include "parallel/comm/collective_strings.h"
#include "parallel/comm/device_wait.h"
#include "parallel/comm/faulting_rank.h"

namespace lockstep {
namespace {

constexpr std::size_t kMaxNames = 8;

/// "a, b, c and 4 more"
std::string join_some(const std::vector<std::string>& names, const char* separator) {
  const std::size_t shown = std::min(names.size(), kMaxNames);
  std::string text =
      fmt::format("{}", fmt::join(names.begin(), names.begin() + std::ptrdiff_t(shown), separator));
  if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

/// Combines the hashes into one. A change of a single hash always changes it, as every operation is
/// a bijection.
std::uint64_t combine(std::span<const std::uint64_t> hashes) {
  std::uint64_t sum = 0;
  for (const std::uint64_t hash : hashes) {
    sum = (sum + hash) * 0x9e3779b97f4a7c15u;
    sum ^= sum >> 29;
  }
  return sum;
}

/// "rank 3 (node7)", "ranks 2 (node1), 3 (node7)"
std::string name_ranks(const std::vector<int>& ranks, const std::vector<std::string>& hosts) {
  return format_ranks(ranks, [&](int rank) { return hosts[std::size_t(rank)]; });
}

std::string name_hosts(const RankGroups& ranks, const std::vector<std::string>& hosts) {
  std::vector<std::string> names;
  std::set<std::string> named;
  for (std::size_t g = ranks.has_majority ? 1 : 0; g < ranks.groups.size(); ++g)
    for (const int rank : ranks.groups[g])
      if (named.insert(hosts[std::size_t(rank)]).second) names.push_back(hosts[std::size_t(rank)]);
  return join_some(names, " or ");
}

/// Names the faulting rank, or the first of several.
class OneDivergedError final : public DivergedError, public FaultingRank {
 public:
  OneDivergedError(const std::string& message, const std::string& hint, FaultingRank faulting_rank)
      : DivergedError(message, hint), FaultingRank(std::move(faulting_rank)) {}
};

std::string what_happened(std::int64_t step,
                          const RankGroups& ranks,
                          const std::vector<std::string>& hosts) {
  if (!ranks.has_majority) {
    std::vector<std::string> sides;
    for (const std::vector<int>& group : ranks.groups) sides.push_back(name_ranks(group, hosts));
    return fmt::format(
        "replicas differ after step {}, without a majority that shows which are right: {}",
        step,
        join_some(sides, " against "));
  }
  std::vector<int> minority;
  for (std::size_t g = 1; g < ranks.groups.size(); ++g)
    minority.insert(minority.end(), ranks.groups[g].begin(), ranks.groups[g].end());
  std::ranges::sort(minority);
  return fmt::format("replicas differ after step {}: {} hold{} other bits than the {} others",
                     step,
                     name_ranks(minority, hosts),
                     minority.size() == 1 ? "s" : "",
                     ranks.groups[0].size());
}

std::string words_of(const FlatArray& array) {
  switch (file_of(array)) {
    case CheckpointFile::model:
      return "parameters";
    case CheckpointFile::average:
      return "average of the weights";
    case CheckpointFile::optimizer:
      break;
  }
  return "optimizer " + array.name;
}

}  // namespace

std::vector<ComparedTensor> compared_tensors(const SavedArrays& saved) {
  std::vector<ComparedTensor> tensors;
  for (std::size_t a = 0; a < saved.arrays.size(); ++a) {
    if (saved.arrays[a].owned) continue;  // no two ranks have the same
    for (const Segment& segment : saved.space.segments) {
      const Parameter& parameter = saved.graph.parameters()[std::size_t(segment.parameter)];
      if (!has(saved.arrays[a], parameter)) continue;
      tensors.push_back(
          {.array = a,
           .parameter = segment.parameter,
           .bucket = segment.bucket,
           .range = {
               .offset = segment.offset, .elems = segment.elems, .bf16 = a == 0 && segment.bf16}});
    }
  }
  return tensors;
}

RankGroups group_ranks(std::span<const std::uint64_t> values) {
  std::map<std::uint64_t, std::vector<int>> ranks_of;
  for (std::size_t rank = 0; rank < values.size(); ++rank)
    ranks_of[values[rank]].push_back(int(rank));
  RankGroups result;
  for (auto& [value, ranks] : ranks_of) result.groups.push_back(std::move(ranks));
  std::ranges::sort(result.groups, [](const auto& a, const auto& b) {
    return a.size() != b.size() ? a.size() > b.size() : a.front() < b.front();
  });
  result.has_majority =
      result.groups.size() > 1 && result.groups[0].size() > result.groups[1].size();
  return result;
}

ReplicaCheck::ReplicaCheck(RankContext& context, const SavedArrays& saved, std::int64_t every)
    : context_(context), saved_(saved), every_(context.size() == 1 ? 0 : every) {
  if (every_ == 0) return;
  tensors_ = compared_tensors(saved_);
  for (const ComparedTensor& tensor : tensors_) ranges_.push_back(tensor.range);
  hashed_.hashes.resize(tensors_.size());
  sent_.hashes.resize(tensors_.size());
}

bool ReplicaCheck::after_step(std::int64_t step) {
  if (every_ == 0) return false;
  const bool due = hashed(step);
  if (due) hash(hashed_, step);
  return due || sent_.step >= 0;
}

void ReplicaCheck::check_now(std::int64_t step) {
  if (every_ == 0) return;
  hash(hashed_, step);
  take(hashed_, all_ranks_equal(context_.host_communicator(), {combine(hashed_.hashes)}));
}

void ReplicaCheck::write(float* own) {
  std::swap(hashed_, sent_);
  hashed_.step = -1;
  if (sent_.step < 0) return;
  const std::uint64_t value = combine(sent_.hashes);
  for (int bit = 0; bit < kHashBits; ++bit) own[bit] = float((value >> bit) & 1u);
}

void ReplicaCheck::read(const float* sums) {
  if (sent_.step < 0) return;
  const auto all = float(context_.size());
  take(sent_, std::all_of(sums, sums + kHashBits, [&](float ranks) {
         return ranks == 0 || ranks == all;
       }));
}

void ReplicaCheck::hash(State& state, std::int64_t step) {
  state.step = step;
  const DeviceWait waiting(context_);
  for (std::size_t begin = 0, end = 0; begin < tensors_.size(); begin = end) {
    const std::size_t array = tensors_[begin].array;
    while (end < tensors_.size() && tensors_[end].array == array) ++end;
    saved_.backend.hash(saved_.arrays[array].values,
                        std::span(ranges_).subspan(begin, end - begin),
                        state.hashes.data() + begin);
  }
}

void ReplicaCheck::take(State& state, bool equal) {
  if (!equal) report(state);
  equal_step_ = state.step;
  state.step = -1;
}

void ReplicaCheck::report(const State& state) {
  Communicator& communicator = context_.host_communicator();
  const RankGroups ranks = group_ranks(gather_records(communicator, combine(state.hashes)));
  const std::vector<std::string> hosts = gather_common_strings(communicator, host_name());
  const std::string places = places_that_differ(state);
  std::string hint = fmt::format(
      "a memory or hardware fault (test {}), or a library there that does not compute the same "
      "twice",
      name_hosts(ranks, hosts));
  if (equal_step_ >= 0)
    hint += fmt::format(
        "; replicas were equal after step {}: resume from a checkpoint of that step or before with "
        "`resume` CHECKPOINT, later ones may hold the fault",
        equal_step_);
  else
    hint += "; they were not equal when this process started";
  const std::string what = fmt::format("{}: {}", what_happened(state.step, ranks, hosts), places);
  if (!ranks.has_majority) throw DivergedError(what, hint);
  const int first = ranks.groups[1][0];
  throw OneDivergedError(
      what, hint, {.rank = first, .host = hosts[std::size_t(first)], .step = state.step});
}

std::string ReplicaCheck::places_that_differ(const State& state) {
  const std::size_t count = state.hashes.size();
  std::vector<std::uint64_t> most = state.hashes;  // and complements, whose largest is of the least
  for (const std::uint64_t hash : state.hashes) most.push_back(~hash);
  context_.host_communicator().all_reduce_max(most);
  std::map<std::pair<std::size_t, int>, std::vector<std::string>> names;  // by array and bucket
  for (std::size_t t = 0; t < count; ++t) {
    if (most[t] == ~most[count + t]) continue;
    const ComparedTensor& tensor = tensors_[t];
    names[{tensor.array, tensor.bucket}].push_back(
        saved_.graph.parameters()[std::size_t(tensor.parameter)].name);
  }
  std::vector<std::string> places;
  for (const auto& [where, tensors] : names) {
    const auto& [array, bucket] = where;
    places.push_back(fmt::format(
        "{}, {} ({})",
        words_of(saved_.arrays[array]),
        bucket < 0 ? "frozen"
                   : fmt::format("bucket {} of 0 to {}", bucket, saved_.space.buckets.size() - 1),
        join_some(tensors, ", ")));
  }
  return join_some(places, "; ");
}

}  // namespace lockstep
