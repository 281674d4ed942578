// SPDX-License-Identifier: Apache-2.0
#include "core/data/ignore_label.h"

#include <cstring>
#include <fmt/format.h>

#include "core/data/forwarding_dataset.h"

namespace lockstep::data {
namespace {

class IgnoreLabel final : public ForwardingDataset {
 public:
  IgnoreLabel(std::shared_ptr<const Dataset> dataset, std::int32_t label)
      : ForwardingDataset(std::move(dataset)),
        label_(label),
        specs_(inner().specs().begin(), inner().specs().end()) {
    for (SampleSpec& spec : specs_) spec.ignore_index = kIgnoreIndex;
  }

  const SampleSpec& spec() const override { return specs_.front(); }
  std::span<const SampleSpec> specs() const override { return specs_; }
  void load_copy(std::uint64_t epoch,
                 std::int64_t index,
                 int copy,
                 std::byte* input,
                 std::byte* target) const override {
    inner().load_copy(epoch, index, copy, input, target);
    std::int32_t label = 0;
    std::memcpy(&label, target, sizeof label);
    if (label == label_) std::memcpy(target, &kIgnoreIndex, sizeof kIgnoreIndex);
  }
  std::int32_t label(std::int64_t index) const override {
    const std::int32_t label = inner().label(index);
    return label == label_ ? kIgnoreIndex : label;
  }
  std::string describe() const override {
    return fmt::format("{}, class {} ignored", inner().describe(), label_);
  }
  Preprocessing preprocessing() const override {
    Preprocessing record = inner().preprocessing();
    record.samples = spec();
    return record;
  }
  std::uint64_t fingerprint() const override {
    return inner().fingerprint() * 31 + std::uint64_t(label_) + 1;
  }

 private:
  std::shared_ptr<const Dataset> around(std::shared_ptr<const Dataset> other) const override {
    return std::make_shared<IgnoreLabel>(std::move(other), label_);
  }

  std::int32_t label_;
  std::vector<SampleSpec> specs_;
};

}  // namespace

std::shared_ptr<const Dataset> ignore_label(std::shared_ptr<const Dataset> dataset,
                                            std::int32_t label) {
  return std::make_shared<IgnoreLabel>(std::move(dataset), label);
}

}  // namespace lockstep::data
