// SPDX-License-Identifier: Apache-2.0
#include "parallel/training/save_agreement.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "core/exec/agreement.h"
#include "core/exec/gather_records.h"
#include "core/step/saved/saved_arrays.h"
#include "parallel/comm/collective_strings.h"
#include "parallel/comm/shared_folder.h"

namespace lockstep {
namespace {

using nlohmann::json;

std::string to_text(const std::vector<SaveFailure>& failures) {
  json list = json::array();
  for (const SaveFailure& failure : failures)
    list.push_back({{"save", failure.save},
                    {"step", failure.step},
                    {"in_memory", failure.in_memory},
                    {"error", failure.error},
                    {"hint", failure.hint}});
  return list.dump(-1, ' ', false, json::error_handler_t::replace);  // paths need not be UTF-8
}

}  // namespace

SaveAgreement::SaveAgreement(Communicator& ranks, const std::string& folder) : ranks_(ranks) {
  if (alone()) return;
  std::random_device random;
  token_ = from_first((std::uint64_t(random()) << 32) | random());
  why_one_ = why_not_all(folder);
}

/// Why not all ranks can write into `folder`; empty: they can. Collective.
std::string SaveAgreement::why_not_all(const std::string& folder) {
  const auto sight = look_for_shared_folder(ranks_, folder, /*writes=*/true);
  if (!sight) return fmt::format("it cannot write a file near {}", folder);
  if (sight->blind.empty()) return {};
  return fmt::format("{} do{} not see its folder {} on {}",
                     sight->blind,
                     sight->blind_ranks == 1 ? "es" : "",
                     folder,
                     sight->host);
}

std::vector<FlatRange> SaveAgreement::parts(const SavedArrays& saved) const {
  std::vector<FlatRange> parts = snapshot_parts(saved, why_one_.empty() ? ranks_.size() : 1);
  parts.resize(std::size_t(ranks_.size()), {.offset = saved.space.elems, .elems = 0});
  return parts;
}

io::CheckpointWriters SaveAgreement::writers(std::span<const FlatRange> parts,
                                             std::int64_t number) const {
  std::vector<int> all(parts.size());
  std::iota(all.begin(), all.end(), 0);
  return writers(parts, number, all);
}

io::CheckpointWriters SaveAgreement::writers(std::span<const FlatRange> parts,
                                             std::int64_t number,
                                             std::span<const int> members) const {
  io::CheckpointWriters writers{.rank = rank(), .others = {}, .leader = members.front(), .id = {}};
  for (const int member : members.subspan(1))
    if (parts[std::size_t(member)].elems > 0) writers.others.push_back(member);
  if (!writers.others.empty()) writers.id = fmt::format("{:016x}-{}", token_, number);
  return writers;
}

bool SaveAgreement::all(bool own) { return all_ranks(ranks_, own); }

std::vector<int> SaveAgreement::ranks_without(bool own) {
  std::vector<int> without;
  if (all(own)) return without;
  const std::vector<char> answers = gather_records(ranks_, char(own ? 1 : 0));
  for (std::size_t r = 0; r < answers.size(); ++r)
    if (answers[r] == 0) without.push_back(int(r));
  return without;
}

void SaveAgreement::exchange_failures() {
  if (alone() || !any_rank(ranks_, !failures_.empty())) return;
  const std::vector<std::string> texts = gather_strings(ranks_, to_text(failures_));
  failures_.clear();
  if (!leads() || !on_failure_) return;
  for (std::size_t r = 0; r < texts.size(); ++r)
    for (const json& failure : json::parse(texts[r]))
      on_failure_(int(r),
                  {.save = failure.at("save"),
                   .step = failure.at("step"),
                   .in_memory = failure.at("in_memory"),
                   .error = failure.at("error"),
                   .hint = failure.at("hint")});
}

void SaveAgreement::write(float* own) {
  own[0] = leads() && asks_ ? 1.0f : 0.0f;
  own[1] = failures_.empty() ? 0.0f : 1.0f;
}

void SaveAgreement::read(const float* sums) {
  asked_ |= sums[0] != 0;
  if (sums[1] != 0) exchange_failures();
}

}  // namespace lockstep
