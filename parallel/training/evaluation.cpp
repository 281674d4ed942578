// SPDX-License-Identifier: Apache-2.0
#include "parallel/training/evaluation.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>

#include "core/base/check.h"
#include "core/data/zero_filled_dataset.h"
#include "core/exec/agreement.h"
#include "core/exec/position.h"
#include "core/host/monotonic_clock.h"
#include "lockstep/training_feed.h"
#include "parallel/comm/collective_strings.h"
#include "parallel/training/run_loaders.h"

namespace lockstep {

Evaluation::Evaluation(RankContext& context,
                       Replica& replica,
                       const TrainOptions& options,
                       std::shared_ptr<const data::Dataset> data)
    : context_(context), replica_(replica), options_(options), whole_(std::move(data)) {}

std::optional<EvaluationRecord> Evaluation::run(const std::function<bool()>& interrupted) {
  const auto begin = MonotonicClock::now();
  try_skipped_again();
  std::optional<StepResult> result;
  Unreadable found;
  do {
    found = {};
    result = pass(found, interrupted);
    if (!result) return std::nullopt;
  } while (options_.skip_bad_samples && skip(found));
  EvaluationRecord record;
  record.val_loss = result->loss;
  record.val_accuracy = result->accuracy;
  record.samples = whole_->size() - std::ssize(skipped_);
  record.skipped_samples = std::ssize(skipped_);
  record.first_skipped = first_skipped_;
  record.seconds = std::chrono::duration<double>(MonotonicClock::now() - begin).count();
  return record;
}

/// One evaluation of what is not skipped. Its result holds only where no rank found anything.
std::optional<StepResult> Evaluation::pass(Unreadable& found,
                                           const std::function<bool()>& interrupted) {
  std::shared_ptr<const data::Dataset> data = whole_;
  if (reduced_) data = reduced_;
  std::shared_ptr<const data::ZeroFilledDataset> zero_filled;
  if (options_.skip_bad_samples)
    data = zero_filled = std::make_shared<const data::ZeroFilledDataset>(data);
  const Schedule schedule = replica_.evaluation_schedule(data->size());
  replica_.compile_for_evaluation(data->size());
  EvaluationFeed requests(schedule);
  data::LoaderOptions loading = evaluation_loader(options_, replica_.batch());
  lend_to_loader(replica_, loading);
  data::Loader loader(data, loading, [&](data::LoadRequest& r) { return requests.next(r); });
  const auto result = replica_.evaluate(schedule, loader, interrupted);
  loader_bytes_ = loader.memory_bytes();
  if (!zero_filled) return result;
  for (const std::int64_t sample : zero_filled->unreadable())
    found.samples.push_back(reduced_ ? reduced_->original(sample) : sample);
  found.first = zero_filled->first_unreadable();
  return result;
}

/// Skips from now on what any rank found to be unreadable; false: none found any.
bool Evaluation::skip(const Unreadable& found) {
  const auto* const bytes = reinterpret_cast<const char*>(found.samples.data());
  const std::string own(bytes, found.samples.size() * sizeof(std::int64_t));
  Communicator& ranks = context_.host_communicator();
  if (!any_rank(ranks, !own.empty())) return false;
  const std::vector<std::string> of_rank = gather_strings(ranks, own);
  const std::vector<std::string> first_of_rank = gather_strings(ranks, found.first);
  std::set<std::int64_t> all(skipped_.begin(), skipped_.end());
  const std::size_t before = all.size();
  for (std::size_t rank = 0; rank < of_rank.size(); ++rank) {
    std::vector<std::int64_t> samples(of_rank[rank].size() / sizeof(std::int64_t));
    if (samples.empty()) continue;
    std::memcpy(samples.data(), of_rank[rank].data(), of_rank[rank].size());
    if (all.empty() || samples.front() < *all.begin()) first_skipped_ = first_of_rank[rank];
    all.insert(samples.begin(), samples.end());
  }
  if (all.size() == before) return false;
  skipped_.assign(all.begin(), all.end());
  ever_skipped_.insert(all.begin(), all.end());
  if (first_ever_skipped_.empty()) first_ever_skipped_ = first_skipped_;
  LOCKSTEP_CHECK(std::ssize(skipped_) < whole_->size(),
                 DataError,
                 "evaluation: none of the {} samples can be read; the first: {}",
                 whole_->size(),
                 first_skipped_);
  reduced_ = std::make_shared<const data::ReducedDataset>(whole_, skipped_);
  return true;
}

/// Each rank reads a part of them.
void Evaluation::try_skipped_again() {
  if (skipped_.empty()) return;
  const data::ZeroFilledDataset zero_filled(whole_);
  std::vector<std::byte> input(whole_->spec().input.bytes()), target(whole_->spec().target.bytes());
  for (auto i = std::size_t(context_.rank()); i < skipped_.size();
       i += std::size_t(context_.size())) {
    zero_filled.load(0, skipped_[i], input.data(), target.data());
    context_.position().tick();
  }
  const std::set<std::int64_t> samples = zero_filled.unreadable();
  skipped_.clear();
  first_skipped_.clear();
  reduced_.reset();
  skip({{samples.begin(), samples.end()}, zero_filled.first_unreadable()});
}

}  // namespace lockstep
