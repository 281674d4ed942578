// SPDX-License-Identifier: Apache-2.0
#include "lockstep/builder.h"

#include <charconv>
#include <cmath>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/nn/builder.h"
#include "core/ops/activations/relu.h"
#include "core/ops/add.h"
#include "core/ops/conv2d.h"
#include "core/ops/dropout.h"
#include "core/ops/linear.h"
#include "core/ops/normalize.h"
#include "core/ops/pooling/avg_pool2d.h"
#include "core/ops/pooling/global_avg_pool.h"
#include "core/ops/pooling/max_pool2d.h"
#include "core/ops/reshape.h"

namespace lockstep {
namespace {

ops::Pool2dAttrs pool_attrs(const Pool2dOptions& o) {
  const int stride = o.stride == 0 ? o.kernel : o.stride;
  return {o.kernel, o.kernel, stride, stride, o.padding, o.padding};
}

Shape sample_shape(const Shape& batch) { return Shape(batch.dims().subspan(1)); }

}  // namespace

BatchNormPolicy BatchNormPolicy::parse(const std::string& text) {
  if (text == "local") return {Kind::local, 0};
  if (text == "sync") return {Kind::sync, 0};
  constexpr std::string_view kPrefix = "group:";
  std::int64_t group = 0;
  if (text.starts_with(kPrefix)) {
    const char* end = text.data() + text.size();
    const auto [stop, code] = std::from_chars(text.data() + kPrefix.size(), end, group);
    if (code == std::errc() && stop == end && group >= 1) return {Kind::group, group};
  }
  throw ConfigError(fmt::format("`batch_norm`: expected local, sync or group:SAMPLES, got '{}'",
                                as_written(text)),
                    "for example `batch_norm` group:16");
}

std::string BatchNormPolicy::to_string() const {
  switch (kind) {
    case Kind::local:
      return "local";
    case Kind::sync:
      return "sync";
    case Kind::group:
      return fmt::format("group:{}", group);
  }
  throw InternalError("unknown batch-norm policy");
}

Builder::Builder(Graph& graph, const BuilderSettings& settings)
    : graph_(graph), settings_(std::make_unique<const BuilderSettings>(settings)) {}
Builder::~Builder() = default;

Mode Builder::mode() const { return settings_->mode; }

const std::vector<data::EmbeddedColumn>& Builder::embedded_columns() const {
  return settings_->embedded;
}

std::string Builder::layer_path(const std::string& name, const char* op) {
  if (!name.empty()) return prefix_ + name;
  return fmt::format("{}{}{}", prefix_, op, ++counters_[prefix_ + op]);
}

Value Builder::apply(std::shared_ptr<const Operator> op,
                     std::vector<ValueId> inputs,
                     const std::string& path,
                     SourceLoc where) {
  return {&graph_, graph_.add_node(std::move(op), std::move(inputs), path, where)[0]};
}

Value Builder::norm_or_bias(const std::string& name, const Shape& shape, const Init& init) {
  Parameter p;
  p.name = name;
  p.shape = shape;
  p.init = init;
  p.file_layout = {shape, {}, shape};
  p.normalisation_or_bias = true;
  return {&graph_, graph_.add_parameter(std::move(p))};
}

Value Builder::weight(const std::string& name,
                      const Shape& shape,
                      const Init& init,
                      const FileLayout& file_layout) {
  Parameter p;
  p.name = name;
  p.shape = shape;
  p.init = init;
  p.file_layout = file_layout;
  return {&graph_, graph_.add_parameter(std::move(p))};
}

Value Builder::linear_weight(Value x, const LinearOptions& o, const std::string& path, Init init) {
  const std::int64_t in = x.shape()[-1], out = o.out_features;
  if (!o.tied_to.empty()) {
    for (std::size_t i = 0; i < graph_.parameters().size(); ++i)
      if (graph_.parameters()[i].name == o.tied_to)
        return {&graph_, graph_.parameter_value(int(i))};
    throw ConfigError(
        fmt::format("linear '{}': tied to '{}', which no layer before it has", path, o.tied_to));
  }
  const Shape shape{out, in};
  FileLayout layout{shape, {}, shape};
  if (o.transposed_in_file) layout = {shape, {1, 0}, {in, out}};
  if (const auto image = flattened_images_.find(x.id()); image != flattened_images_.end()) {
    const Shape& s = image->second;
    layout = {{out, s[0], s[1], s[2]}, {0, 3, 1, 2}, shape};
  }
  return weight(path + o.separator + "weight", shape, init, layout);
}

Value Builder::linear(Value x, const LinearOptions& options, SourceLoc where) {
  LOCKSTEP_CHECK(
      x.shape().rank() >= 2 && x.shape().rank() <= (options.every_pixel ? 4 : 3) &&
          options.out_features >= 1,
      ShapeError,
      "linear: expected an input [N, features] or [N, T, features] and out_features of at least 1, "
      "got {} and {} (asked for at {}:{}); flatten() comes first for images",
      x.type().to_string(),
      options.out_features,
      where.file,
      where.line);
  const std::string path = layer_path(options.name, "linear");
  const double fan_in = double(std::max<std::int64_t>(1, x.shape()[-1]));
  const bool normal = options.normal_init > 0.0f;
  const Init uniform{Init::Kind::uniform, float(1.0 / std::sqrt(fan_in))};
  const Init init = normal ? Init{Init::Kind::normal, options.normal_init} : uniform;
  std::vector<ValueId> inputs{x.id(), linear_weight(x, options, path, init).id()};
  if (options.bias)
    inputs.push_back(norm_or_bias(path + options.separator + "bias",
                                  {options.out_features},
                                  normal ? Init{} : uniform)
                         .id());
  return apply(std::make_shared<ops::Linear>(options.bias), inputs, path, where);
}

Value Builder::conv2d(Value x, const Conv2dOptions& o, SourceLoc where) {
  LOCKSTEP_CHECK(
      x.shape().rank() == 4 && o.groups >= 1 && o.kernel >= 1 && o.out_channels >= 1 &&
          x.shape()[3] % o.groups == 0,
      ShapeError,
      "conv2d: expected an input [N, H, W, C] with C a multiple of groups, and kernel and "
      "out_channels of at least 1; got {}, groups={}, kernel={}, out_channels={} (asked "
      "for at {}:{})",
      x.type().to_string(),
      o.groups,
      o.kernel,
      o.out_channels,
      where.file,
      where.line);
  LOCKSTEP_CHECK(o.groups == 1 || !(o.dirac_init || o.whitening),
                 ConfigError,
                 "conv2d: dirac_init and whitening want groups=1, got {} (asked for at {}:{})",
                 o.groups,
                 where.file,
                 where.line);
  LOCKSTEP_CHECK(!o.whitening || o.out_channels == 2 * o.kernel * o.kernel * x.shape()[3],
                 ShapeError,
                 "conv2d: whitening of {}x{} patches of {} channels wants out_channels={}, got {} "
                 "(asked for at {}:{})",
                 o.kernel,
                 o.kernel,
                 x.shape()[3],
                 2 * o.kernel * o.kernel * x.shape()[3],
                 o.out_channels,
                 where.file,
                 where.line);
  const int inits = o.he_normal_init + (o.normal_init > 0.0f) + o.dirac_init + o.whitening;
  LOCKSTEP_CHECK(inits <= 1,
                 ConfigError,
                 "conv2d: of he_normal_init, normal_init, dirac_init and whitening one can hold, "
                 "got {} (asked for at {}:{})",
                 inits,
                 where.file,
                 where.line);
  LOCKSTEP_CHECK(!o.whitening || x.id() == model_input(),
                 ConfigError,
                 "conv2d: whitening wants the model's input, whose patches its filters are made "
                 "of, got what another layer made of it (asked for at {}:{})",
                 where.file,
                 where.line);
  const std::string path = layer_path(o.name, "conv2d");
  const std::int64_t in = x.shape()[3] / o.groups, k = o.kernel, out = o.out_channels;
  const double fan_in = double(in * k * k), fan_out = double(out * k * k);
  const float bound = float(1.0 / std::sqrt(fan_in));

  const Shape shape{out, k, k, in};
  const bool normal = o.he_normal_init || o.normal_init > 0.0f;
  const float deviation = o.normal_init > 0.0f ? o.normal_init : float(std::sqrt(2.0 / fan_out));
  Init init = normal ? Init{Init::Kind::normal, deviation} : Init{Init::Kind::uniform, bound};
  if (o.dirac_init) init = {Init::Kind::dirac, bound};
  if (o.whitening) init = {Init::Kind::whitening, bound};
  std::vector<ValueId> inputs{
      x.id(), weight(path + ".weight", shape, init, {shape, {0, 3, 1, 2}, {out, in, k, k}}).id()};
  if (o.whitening) graph_.freeze(int(graph_.parameters().size()) - 1);
  if (o.bias)
    inputs.push_back(norm_or_bias(path + ".bias",
                                  {out},
                                  normal || o.whitening ? Init{} : Init{Init::Kind::uniform, bound})
                         .id());
  const ops::Conv2dAttrs attrs{.stride_h = o.stride,
                               .stride_w = o.stride,
                               .padding_h = o.padding,
                               .padding_w = o.padding,
                               .groups = o.groups,
                               .bias = o.bias};
  return apply(std::make_shared<ops::Conv2d>(attrs), inputs, path, where);
}

ValueId Builder::model_input() const {
  const bool normalised = settings_->normalises_input && !graph_.nodes().empty();
  return normalised ? graph_.nodes()[0].outputs[0] : graph_.input_value(0);
}

Value Builder::keep_layout(Value from, Value to) {
  if (const auto image = flattened_images_.find(from.id()); image != flattened_images_.end())
    flattened_images_.emplace(to.id(), Shape(image->second));
  return to;
}

Value Builder::relu(Value x, SourceLoc where) {
  return keep_layout(x,
                     apply(std::make_shared<ops::Relu>(), {x.id()}, layer_path("", "relu"), where));
}

Value Builder::relu6(Value x, SourceLoc where) {
  return keep_layout(
      x, apply(std::make_shared<ops::Relu>(6.0f), {x.id()}, layer_path("", "relu6"), where));
}

Value Builder::add(Value a, Value b, SourceLoc where) {
  return keep_layout(
      a, apply(std::make_shared<ops::Add>(), {a.id(), b.id()}, layer_path("", "add"), where));
}

Value Builder::max_pool2d(Value x, const Pool2dOptions& o, SourceLoc where) {
  return apply(std::make_shared<ops::MaxPool2d>(pool_attrs(o)),
               {x.id()},
               layer_path("", "max_pool2d"),
               where);
}

Value Builder::avg_pool2d(Value x, const Pool2dOptions& o, SourceLoc where) {
  return apply(std::make_shared<ops::AvgPool2d>(pool_attrs(o)),
               {x.id()},
               layer_path("", "avg_pool2d"),
               where);
}

Value Builder::global_avg_pool(Value x, SourceLoc where) {
  return apply(
      std::make_shared<ops::GlobalAvgPool>(), {x.id()}, layer_path("", "global_avg_pool"), where);
}

Value Builder::flatten(Value x, SourceLoc where) {
  if (x.shape().rank() == 2) return x;
  const Shape sample = sample_shape(x.shape());
  const Value flat = apply(std::make_shared<ops::Reshape>(Shape{sample.elems()}),
                           {x.id()},
                           layer_path("", "flatten"),
                           where);
  if (sample.rank() == 3) flattened_images_.emplace(flat.id(), sample);
  return flat;
}

Value Builder::dropout(Value x, float rate, SourceLoc where) {
  const std::string path = layer_path("", "dropout");
  if (rate == 0.0f || mode() == Mode::evaluation) return x;
  return keep_layout(x, apply(std::make_shared<ops::Dropout>(rate), {x.id()}, path, where));
}

Value Builder::stochastic_depth(Value x, float rate, SourceLoc where) {
  const std::string path = layer_path("", "stochastic_depth");
  if (rate == 0.0f || mode() == Mode::evaluation) return x;
  return keep_layout(x, apply(std::make_shared<ops::Dropout>(rate, true), {x.id()}, path, where));
}

Value Builder::normalize(Value x,
                         std::vector<float> scale,
                         std::vector<float> shift,
                         SourceLoc where) {
  return apply(std::make_shared<ops::Normalize>(std::move(scale), std::move(shift)),
               {x.id()},
               layer_path("", "normalize"),
               where);
}

Builder::Scope Builder::scope(const std::string& name) {
  std::string previous = prefix_;
  prefix_ += name + ".";
  return {*this, std::move(previous)};
}

}  // namespace lockstep
