// SPDX-License-Identifier: Apache-2.0
#include "launcher/predict/labelled_predictions.h"

#include <algorithm>
#include <cstring>

#include "core/data/zero_filled_dataset.h"
#include "core/exec/batch_predictor.h"
#include "launcher/predict/predict_inputs.h"
#include "lockstep/data/loader.h"
#include "lockstep/error.h"
#include "parallel/comm/collective_strings.h"

namespace lockstep {
namespace {

LabelledPredictions::Class class_of(std::span<const float> logits, std::int32_t label) {
  const auto best = std::ranges::max_element(logits) - logits.begin();
  LabelledPredictions::Class result{label, std::int32_t(best), 0};
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const float own = logits[std::size_t(label)];
    result.likelier += logits[i] > own || (logits[i] == own && i < std::size_t(label));
  }
  return result;
}

void add(LabelledPredictions& result,
         const data::SampleSpec& spec,
         std::span<const float> outputs,
         const std::byte* target) {
  if (spec.classes > 0) {
    std::int32_t label = 0;
    std::memcpy(&label, target, sizeof label);
    if (label >= 0 && label < spec.classes) result.classes.push_back(class_of(outputs, label));
    return;
  }
  result.predictions.insert(result.predictions.end(), outputs.begin(), outputs.end());
  const std::size_t before = result.targets.size();
  result.targets.resize(before + outputs.size());
  std::memcpy(result.targets.data() + before, target, outputs.size() * sizeof(float));
}

data::LoaderOptions loader_options(Job& job, const SavedRun& run, std::int64_t batch) {
  data::LoaderOptions options{.workers = run.flags.options.workers, .micro_batch = batch};
  options.slots = std::max(options.slots, options.workers + 2);
  options.loaded = [&position = job.position()] { position.tick(); };
  return options;
}

/// Of the samples [first, end); those that cannot be read are skipped where the run says so.
LabelledPredictions predict_share(Job& job,
                                  const SavedRun& run,
                                  std::shared_ptr<const data::Dataset> data,
                                  std::int64_t first,
                                  std::int64_t end) {
  LabelledPredictions result;
  if (first == end) return result;
  std::shared_ptr<const data::ZeroFilledDataset> zero_filled;
  if (run.flags.options.skip_bad_samples)
    data = zero_filled = std::make_shared<const data::ZeroFilledDataset>(data);
  const data::SampleSpec& spec = data->spec();
  const std::int64_t batch = std::min(kPredictedAtOnce, end - first);
  BatchPredictor predictor(job.backend(),
                           model_of(run, spec),
                           spec,
                           batch,
                           run.flags.options.precision,
                           run.weights,
                           run.mirrors());
  std::int64_t asked = first;
  data::Loader loader(data, loader_options(job, run, batch), [&](data::LoadRequest& request) {
    request.samples.clear();
    request.epoch = 0;
    while (asked < end && std::int64_t(request.samples.size()) < batch)
      request.samples.push_back(asked++);
    return !request.samples.empty();
  });
  std::vector<std::byte> input(std::size_t(batch) * spec.input.bytes());
  for (std::int64_t sample = first; sample < end; sample += batch) {
    const data::LoadedBatch loaded = loader.next();
    std::memcpy(input.data(), loaded.input, std::size_t(loaded.samples) * spec.input.bytes());
    const std::vector<float>& outputs = predictor.run(input.data());
    const std::size_t width = outputs.size() / std::size_t(batch);
    for (std::int64_t i = 0; i < loaded.samples; ++i)
      if (!zero_filled || !zero_filled->is_unreadable(sample + i))
        add(result,
            spec,
            std::span(outputs).subspan(std::size_t(i) * width, width),
            loaded.target + std::size_t(i) * spec.target.bytes());
    job.position().tick();
  }
  return result;
}

/// Those of all ranks, one after the other.
template <typename T>
void gather(Communicator& communicator, std::vector<T>& values) {
  const std::string own(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  values.clear();
  for (const std::string& part : gather_strings(communicator, own)) {
    if (part.empty()) continue;  // values may have no memory yet
    const std::size_t before = values.size();
    values.resize(before + part.size() / sizeof(T));
    std::memcpy(values.data() + before, part.data(), part.size());
  }
}

}  // namespace

LabelledPredictions predict_labelled(Job& job,
                                     const SavedRun& run,
                                     std::shared_ptr<const data::Dataset> data) {
  const std::int64_t size = data->size(), ranks = job.size(), rank = job.rank();
  const std::int64_t first = size * rank / ranks, end = size * (rank + 1) / ranks;
  LabelledPredictions result = predict_share(job, run, std::move(data), first, end);
  if (ranks == 1) return result;
  gather(job.host_communicator(), result.classes);
  gather(job.host_communicator(), result.predictions);
  gather(job.host_communicator(), result.targets);
  return result;
}

}  // namespace lockstep
