// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <vector>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/base/random.h"
#include "core/data/forwarding_dataset.h"
#include "core/data/input_file.h"
#include "lockstep/data/preprocessing.h"
#include "lockstep/data/sources.h"

namespace lockstep::data {
namespace {

using ClassSamples = std::vector<std::vector<std::uint32_t>>;

std::string class_text(const Dataset& dataset, std::size_t index) {
  const std::vector<std::string> names = dataset.class_names();
  if (index >= names.size()) return std::to_string(index);
  return fmt::format("{} '{}'", index, as_written(names[index]));
}

void expect_classes(const Dataset& dataset, const char* what) {
  LOCKSTEP_CHECK(dataset.spec().classes > 0 && dataset.spec().target == TensorType({}, DType::i32),
                 ConfigError,
                 "{} needs data with one class a sample, but the targets of {} are {}",
                 what,
                 dataset.describe(),
                 dataset.spec().target.to_string());
}

/// The samples of each class; those to be ignored are in none.
ClassSamples samples_by_class(const Dataset& dataset) {
  const SampleSpec& spec = dataset.spec();
  ClassSamples of_class(std::size_t(spec.classes));
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    const std::int32_t label = dataset.label(i);
    if (label == spec.ignore_index) continue;
    LOCKSTEP_CHECK(label >= 0 && label < spec.classes,
                   DataError,
                   "data: label {} is not one of the {} classes, 0 to {}",
                   label,
                   spec.classes,
                   spec.classes - 1);
    of_class[std::size_t(label)].push_back(std::uint32_t(i));
  }
  return of_class;
}

class BalancedClasses final : public ForwardingDataset {
 public:
  BalancedClasses(std::shared_ptr<const Dataset> dataset, std::uint64_t seed)
      : ForwardingDataset(std::move(dataset)), key_(random_key(seed, "balance")) {
    expect_classes(inner(), "`balance` classes");
    LOCKSTEP_CHECK(inner().size() < std::int64_t{1} << 32,
                   ConfigError,
                   "`balance` classes takes fewer than 2^32 samples, got {}",
                   inner().size());
    of_class_ = samples_by_class(inner());
    for (std::size_t k = 0; k < of_class_.size(); ++k)
      if (of_class_[k].empty())
        throw ConfigError(fmt::format("`balance` classes: class {} has no training sample",
                                      class_text(inner(), k)),
                          "add samples of it, remove the class, or train without `balance`");
  }

  void load_copy(std::uint64_t epoch,
                 std::int64_t index,
                 int copy,
                 std::byte* input,
                 std::byte* target) const override {
    const auto [drawn, sample] = draw(epoch, index);
    // A sample that is drawn several times is cut and changed anew each time.
    inner().load_copy(epoch | std::uint64_t(index) << 32, sample, copy, input, target);
    std::int32_t label = 0;
    std::memcpy(&label, target, sizeof label);
    LOCKSTEP_CHECK(label == std::int32_t(drawn),
                   DataError,
                   "`balance` classes: {} has class {} in epoch {} for sample {}, and had {} in "
                   "epoch 0; samples that are drawn anew cannot be balanced",
                   inner().describe(),
                   label,
                   epoch,
                   sample,
                   drawn);
  }
  std::int32_t label(std::int64_t index) const override {
    return std::int32_t(draw(0, index).label);
  }
  std::string describe() const override {
    return fmt::format("{}, classes balanced", inner().describe());
  }
  std::uint64_t fingerprint() const override {
    return content_hash(&key_, sizeof key_, inner().fingerprint());
  }

 private:
  std::shared_ptr<const Dataset> around(std::shared_ptr<const Dataset> other) const override {
    auto result = std::make_shared<BalancedClasses>(*this);  // labels are the same
    result->set_inner(std::move(other));
    return result;
  }
  struct Draw {
    std::uint32_t label = 0, sample = 0;
  };
  Draw draw(std::uint64_t epoch, std::int64_t index) const {
    const RandomBlock block = philox(key_, std::uint64_t(index), epoch);
    RandomStream random(std::uint64_t{block[0]} << 32 | block[1],
                        std::uint64_t{block[2]} << 32 | block[3]);
    const std::uint32_t label = random.below(std::uint32_t(of_class_.size()));
    const auto& samples = of_class_[label];
    return {label, samples[random.below(std::uint32_t(samples.size()))]};
  }

  std::uint64_t key_;
  ClassSamples of_class_;
};

}  // namespace

std::vector<std::int64_t> class_counts(const Dataset& dataset) {
  expect_classes(dataset, "counting classes");
  std::vector<std::int64_t> counts;
  for (const auto& samples : samples_by_class(dataset)) counts.push_back(std::ssize(samples));
  return counts;
}

std::shared_ptr<const Dataset> balanced_classes(std::shared_ptr<const Dataset> dataset,
                                                std::uint64_t seed) {
  return std::make_shared<BalancedClasses>(std::move(dataset), seed);
}

}  // namespace lockstep::data
