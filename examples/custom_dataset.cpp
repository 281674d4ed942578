// SPDX-License-Identifier: Apache-2.0
// Data of one's own: points in two rings, drawn by a Dataset; trained, saved and asked.
//   custom_dataset FOLDER
#include <cmath>
#include <cstdio>
#include <cstring>
#include <lockstep/lockstep.h>
#include <span>

namespace ls = lockstep;

/// Point i lies at an angle of its own on one of two rings around the origin, of radius 1 and 2.
class Rings final : public ls::data::Dataset {
 public:
  Rings(std::int64_t first, std::int64_t size) : first_(first), size_(size) {}

  const ls::data::SampleSpec& spec() const override { return spec_; }
  std::int64_t size() const override { return size_; }
  /// Called by several threads at once; writes as many bytes as spec() says.
  void load(std::uint64_t /*epoch*/,
            std::int64_t index,
            std::byte* input,
            std::byte* target) const override {
    const std::int64_t number = first_ + index;
    const auto ring = std::int32_t(number % 2);
    const float angle = 2.4f * float(number), radius = ring == 0 ? 1.0f : 2.0f;
    const float point[] = {radius * std::cos(angle), radius * std::sin(angle)};
    std::memcpy(input, point, sizeof point);
    std::memcpy(target, &ring, sizeof ring);
  }
  std::string describe() const override { return "rings"; }
  std::vector<std::string> class_names() const override { return {"inner", "outer"}; }
  /// Whatever tells these samples from others, so that no run resumes on other data.
  std::uint64_t fingerprint() const override {
    return std::uint64_t(first_) << 32 | std::uint64_t(size_);
  }

 private:
  std::int64_t first_, size_;
  ls::data::SampleSpec spec_{.input = ls::TensorType{.shape = {2}, .dtype = ls::DType::f32},
                             .target = ls::TensorType{.shape = {}, .dtype = ls::DType::i32},
                             .classes = 2,
                             .ignore_index = {},
                             .scale = {},
                             .shift = {}};
};

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  return ls::run_job(argc, argv, [&](ls::Job& job) {
    const auto model = ls::nn::make_model({.name = "mlp", .outputs = 2, .hidden = {32}});
    ls::Trainer trainer(
        job,
        model,
        ls::softmax_cross_entropy,
        {.global_batch = 64, .micro_batch = 16, .steps = 200, .optimizer = ls::AdamW{.lr = 0.01f}});
    const ls::TrainSummary summary =
        trainer.fit({std::make_shared<Rings>(0, 2048), std::make_shared<Rings>(2048, 256)});
    trainer.save(argv[1]);
    if (job.rank() > 0) return;
    std::printf("accuracy %.4f\n", summary.val_accuracy);

    ls::Predictor predictor(job.backend(), model, argv[1]);
    const float point[] = {0.6f, -0.8f};
    const std::vector<float> probabilities = predictor.predict(std::as_bytes(std::span(point)));
    std::printf("(0.6, -0.8): %s %.4f, %s %.4f\n",
                predictor.name(0).c_str(),
                double(probabilities[0]),
                predictor.name(1).c_str(),
                double(probabilities[1]));
  });
}
