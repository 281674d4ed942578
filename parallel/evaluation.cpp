// SPDX-License-Identifier: Apache-2.0
#include "parallel/evaluation.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>

#include "parallel/exchanged_text.h"
#include "parallel/training_feed.h"
#include "parallel/training_run.h"

namespace lockstep {

Evaluation::Evaluation(RankContext& context,
                       Replica& replica,
                       const TrainOptions& options,
                       std::shared_ptr<const data::Dataset> data)
    : context_(context), replica_(replica), options_(options), whole_(std::move(data)) {}

std::optional<EvaluationRecord> Evaluation::run(const std::function<bool()>& interrupted) {
  const auto begin = std::chrono::steady_clock::now();
  std::optional<StepResult> result;
  BadSamples bad;
  do {
    bad.clear();
    result = pass(bad, interrupted);
    if (!result) return std::nullopt;
  } while (options_.skip_bad_samples && leave_out(bad));
  EvaluationRecord record;
  record.val_loss = result->loss;
  record.val_accuracy = result->accuracy;
  record.samples = whole_->size() - std::ssize(left_out_);
  record.skipped_samples = std::ssize(left_out_);
  record.first_skipped = first_left_out_;
  record.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return record;
}

/// One evaluation of what is not left out. Others take the place of samples that are found to be
/// bad, so that every rank comes to the pass's end; its result is none then.
std::optional<StepResult> Evaluation::pass(BadSamples& bad,
                                           const std::function<bool()>& interrupted) {
  std::shared_ptr<const data::Dataset> data = whole_;
  if (reduced_) data = reduced_;
  const Schedule schedule = replica_.evaluation_schedule(data->size());
  replica_.compile_for_evaluation(data->size());
  EvaluationFeed requests(schedule);
  data::LoaderOptions loading = evaluation_loader(options_, replica_.batch());
  lend_to_loader(replica_, loading);
  std::mutex mutex;
  loading.skipped = [&](std::int64_t sample, const std::string& what) {
    const std::lock_guard lock(mutex);
    bad.emplace(reduced_ ? reduced_->original(sample) : sample, what);
  };
  data::Loader loader(data, loading, [&](data::LoadRequest& r) { return requests.next(r); });
  const auto result = replica_.evaluate(schedule, loader, interrupted);
  loader_bytes_ = loader.memory_bytes();
  return result;
}

/// Leaves out what any rank found to be bad; false: none did.
bool Evaluation::leave_out(const BadSamples& bad) {
  std::string own;
  for (const auto& [sample, what] : bad)
    own.append(reinterpret_cast<const char*>(&sample), sizeof sample);
  Communicator& ranks = context_.host_communicator();
  const std::vector<std::string> found = gather_texts(ranks, own);
  const std::vector<std::string> whats =
      gather_texts(ranks, bad.empty() ? "" : bad.begin()->second);
  const std::size_t before = left_out_.size();
  for (std::size_t rank = 0; rank < found.size(); ++rank) {
    const std::size_t count = found[rank].size() / sizeof(std::int64_t);
    if (count == 0) continue;
    std::vector<std::int64_t> samples(count);
    std::memcpy(samples.data(), found[rank].data(), found[rank].size());
    if (left_out_.empty() || samples.front() < *std::ranges::min_element(left_out_))
      first_left_out_ = whats[rank];
    left_out_.insert(left_out_.end(), samples.begin(), samples.end());
  }
  if (left_out_.size() == before) return false;
  std::ranges::sort(left_out_);
  reduced_ = std::make_shared<const data::ReducedDataset>(whole_, left_out_);
  return true;
}

}  // namespace lockstep
