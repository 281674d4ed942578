// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/exec/program.h"
#include "core/nn/trace.h"
#include "core/optim/optimizer.h"
#include "core/plan/orthogonalize.h"
#include "core/step/optimizer_step.h"
#include "lockstep/error.h"
#include "lockstep/weights.h"
#include "lockstep/zoo.h"
#include "tests/reference/formula.h"
#include "tests/support/test_backend.h"

namespace lockstep::test {

/// One line of MODELS in make_goldens.py.
struct ModelCase {
  std::string name;
  nn::ModelSpec spec;
  Shape sample;  ///< PyTorch's [C, H, W], or [features], or [tokens]
  std::int64_t batch;
  float sgd_lr, adamw_lr, adamw_eps;

  /// spec.outputs is then the vocabulary.
  bool has_tokens() const { return nn::reads_tokens(spec.name); }
};

/// The model's programs for one micro-batch, with memory that nothing shares.
class Model {
 public:
  Model(const ModelCase& test_case, const Optimizer& optimizer, const ClipRules& clip = {})
      : case_(test_case),
        backend_(testing::make_test_backend()),
        space_(lay_out(trace(Mode::training), 1 << 20)),
        training_(trace(Mode::training), *backend_, space_, MemoryReuse::off),
        evaluation_(trace(Mode::evaluation), *backend_, space_, MemoryReuse::off),
        parameters_(backend_->allocate(std::size_t(space_.elems) * 4, "parameters")),
        gradients_(backend_->allocate(std::size_t(space_.elems) * 4, "gradients")) {
    arenas_[0] = backend_->allocate(training_.arena_bytes(), "arena");
    arenas_[1] = backend_->allocate(evaluation_.arena_bytes(), "arena");
    const auto memory = [&](int i) {
      return ProgramMemory{arenas_[i]->data(), parameters_->as<float>(), gradients_->as<float>()};
    };
    training_.bind(memory(0), *backend_, packed_);
    evaluation_.bind(memory(1), *backend_, packed_);
    if (has_phase(optimizer, UpdatePhase::orthogonalize)) {
      orthogonalization_ = std::make_unique<Program>(
          *orthogonalization(training_.graph()), *backend_, space_, MemoryReuse::off);
      arenas_[2] = backend_->allocate(orthogonalization_->arena_bytes(), "arena");
      float* const gradients = gradients_->as<float>();
      orthogonalization_->bind({arenas_[2]->data(), gradients, gradients}, *backend_, packed_);
    }
    lr_ = learning_rate(optimizer);
    update_ = std::make_unique<OptimizerStep>(*backend_,
                                              training_.graph(),
                                              space_,
                                              optimizer,
                                              ParameterRules(),
                                              clip,
                                              parameters_->as<float>(),
                                              gradients_->as<float>(),
                                              places_,
                                              packed_.rounded(),
                                              ownership_,
                                              nullptr);
    if (orthogonalization_) update_->set_orthogonalization(*orthogonalization_, nullptr);
    initialise();
  }

  /// Replaces the weights that come from formulas.
  void set(const std::vector<io::NamedTensor>& tensors) {
    for (const io::NamedTensor& tensor : tensors)
      backend_->copy_to_device(
          flat(parameters_, tensor.parameter.name), tensor.values.data(), tensor.values.size() * 4);
    packed_.invalidate();
  }

  const std::vector<Parameter>& parameters() const { return training_.graph().parameters(); }

  /// Forward and backward of step `step`'s samples; the loss.
  double compute(int step) {
    load(training_, step);
    training_.run_forward({});
    training_.run_backward({});
    float loss = 0;
    backend_->copy_to_host(&loss, flat(gradients_, "loss"), sizeof loss);
    return loss;
  }
  void update(int step) {
    update_->update(step, lr_, nullptr, nullptr);
    update_->update_running_statistics(nullptr);
    packed_.invalidate_but_rounded();
  }
  std::vector<float> logits() const { return logits(training_, 0); }
  std::vector<float> evaluate() {
    load(evaluation_, 0);
    evaluation_.run_forward({});
    return logits(evaluation_, 1);
  }

  /// Parameters and running statistics, as stored.
  std::vector<io::NamedTensor> weights() const {
    std::vector<io::NamedTensor> tensors;
    for (int i = 0; i < int(parameters().size()); ++i)
      if (parameters()[std::size_t(i)].kind != ParameterKind::metric)
        tensors.push_back({parameters()[std::size_t(i)], stored(*parameters_, i)});
    return tensors;
  }
  std::vector<float> value(int parameter) const { return in_file_layout(*parameters_, parameter); }
  std::vector<float> gradient(int parameter) const {
    return in_file_layout(*gradients_, parameter);
  }

 private:
  Graph trace(Mode mode) const {
    data::SampleSpec samples;
    const Shape& s = case_.sample;
    samples.input = {s.rank() == 3 ? Shape{s[1], s[2], s[0]} : s,
                     case_.has_tokens() ? DType::i32 : DType::f32};
    samples.target = {case_.has_tokens() ? s : Shape{}, DType::i32};
    samples.classes = int(case_.spec.outputs);
    return lockstep::trace(
        nn::make_model(case_.spec),
        [](Builder& nn, Value logits, Value labels) {
          return nn.softmax_cross_entropy(logits, labels);
        },
        samples,
        {.mode = mode, .batch_norm = {}, .group_ranks = 1, .micro_batch = case_.batch});
  }

  void initialise() {
    for (const Parameter& p : parameters()) {
      const std::int64_t elems = p.shape.elems();
      std::vector<float> stored(std::size_t(elems), p.init.value);  // running statistics: 0 and 1
      if (p.kind == ParameterKind::trained)
        stored = io::from_file_layout(p, reference::initial_parameter(p.name, p.file_layout.file));
      if (p.kind != ParameterKind::metric)
        backend_->copy_to_device(flat(parameters_, p.name), stored.data(), stored.size() * 4);
    }
    packed_.invalidate();
  }

  void load(const Program& program, int step) {
    const std::string suffix = "." + std::to_string(step);
    const std::int64_t targets = case_.batch * (case_.has_tokens() ? case_.sample.elems() : 1);
    const auto labels = reference::labels("labels" + suffix, targets, int(case_.spec.outputs));
    const float sample_weight = 1.0f / float(case_.batch);
    if (case_.has_tokens())
      set(program, kInputName, reference::labels("x" + suffix, targets, int(case_.spec.outputs)));
    else
      set(program, kInputName, features("x" + suffix));
    set(program, kTargetName, labels);
    backend_->copy_to_device(program.input(kSampleWeightName), &sample_weight, 4);
  }

  template <typename T>
  void set(const Program& program, const char* input, const std::vector<T>& values) {
    backend_->copy_to_device(program.input(input), values.data(), values.size() * sizeof(T));
  }

  std::vector<float> features(const std::string& name) const {
    const Shape& s = case_.sample;
    std::vector<float> x = reference::values(name, case_.batch * s.elems(), 1.0f);
    if (s.rank() == 3) {
      Parameter images;
      images.shape = {case_.batch, s[1], s[2], s[0]};
      images.file_layout = {images.shape, {0, 3, 1, 2}, {case_.batch, s[0], s[1], s[2]}};
      x = io::from_file_layout(images, x);
    }
    return x;
  }

  float* flat(const std::unique_ptr<DeviceBuffer>& buffer, const std::string& name) const {
    for (std::size_t i = 0; i < parameters().size(); ++i)
      if (parameters()[i].name == name) return buffer->as<float>() + space_.of(int(i)).offset;
    throw InternalError("no parameter " + name);
  }
  std::vector<float> stored(DeviceBuffer& buffer, int parameter) const {
    const Segment& segment = space_.of(parameter);
    std::vector<float> values(std::size_t(segment.elems));
    backend_->copy_to_host(values.data(), buffer.as<float>() + segment.offset, values.size() * 4);
    return values;
  }
  std::vector<float> in_file_layout(DeviceBuffer& buffer, int parameter) const {
    return io::to_file_layout(parameters()[std::size_t(parameter)], stored(buffer, parameter));
  }

  std::vector<float> logits(const Program& program, int arena) const {
    for (const Node& node : program.graph().nodes()) {
      if (node.op->kind() != OpKind::softmax_cross_entropy) continue;
      const auto id = std::size_t(node.inputs[0]);
      const int buffer = program.plan().buffer_of_value[id];
      std::vector<float> values(std::size_t(program.graph().values()[id].type.elems()));
      const std::size_t offset = program.plan().arena.offsets[std::size_t(buffer)];
      backend_->copy_to_host(values.data(), arenas_[arena]->data() + offset, values.size() * 4);
      return values;
    }
    throw InternalError("no loss");
  }

  ModelCase case_;
  std::unique_ptr<Backend> backend_;
  FlatSpace space_;
  GradientSpace places_{space_};
  Ownership ownership_{space_, 0};
  Program training_, evaluation_;
  std::unique_ptr<Program> orthogonalization_;
  std::unique_ptr<DeviceBuffer> parameters_, gradients_, arenas_[3];
  PackedCopies packed_{space_};
  std::unique_ptr<OptimizerStep> update_;
  float lr_ = 0;
};

}  // namespace lockstep::test
