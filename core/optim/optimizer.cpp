// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optimizer.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>
#include <system_error>

#include "core/base/parameter_names.h"
#include "core/base/text/suggest.h"
#include "core/optim/optimizer.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

#define LOCKSTEP_NAME(Type, name) #name,
constexpr std::string_view kOptimizerNames[] = {LOCKSTEP_OPTIMIZERS(LOCKSTEP_NAME)};
#undef LOCKSTEP_NAME

using Range = OptimizerHyperParameter::Range;

bool contains(Range range, float value) {
  if (!std::isfinite(value)) return false;
  switch (range) {
    case Range::not_negative:
      return value >= 0.0f;
    case Range::below_one:
      return value >= 0.0f && value < 1.0f;
    case Range::positive:
      return value > 0.0f;
  }
  return false;
}

const char* format_range(Range range) {
  switch (range) {
    case Range::not_negative:
      return "finite and not negative";
    case Range::below_one:
      return "in [0, 1)";
    case Range::positive:
      return "finite and above 0";
  }
  return "";
}

float default_of(std::string_view optimizer, std::string_view hyper_parameter) {
  Optimizer defaults = make_optimizer(optimizer);
  for (const OptimizerHyperParameter& h : hyper_parameters(defaults))
    if (h.name == hyper_parameter) return *std::get<float*>(h.value);
  throw InternalError(fmt::format("{} has no {}", optimizer, hyper_parameter));
}

/// Sets the hyper-parameter of a word of to_string(): "lr=0.1", or "nesterov" where it is true.
bool set_from_word(Optimizer& optimizer, std::string_view word) {
  const std::string_view name = word.substr(0, word.find('='));
  for (const OptimizerHyperParameter& h : hyper_parameters(optimizer)) {
    if (h.name != name) continue;
    if (bool* const* flag = std::get_if<bool*>(&h.value)) {
      **flag = true;
      return name.size() == word.size();
    }
    if (name.size() == word.size()) return false;
    const char* const begin = word.data() + name.size() + 1;
    const char* const end = word.data() + word.size();
    const auto [stop, error] = std::from_chars(begin, end, *std::get<float*>(h.value));
    return error == std::errc() && stop == end;
  }
  return false;
}

/// What to_string() made the text of; nothing: it made it of none of these optimizers.
std::optional<Optimizer> parse(std::string_view text) {
  const auto next_word = [&text] {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    return word;
  };
  const std::string_view name = next_word();
  if (std::ranges::find(kOptimizerNames, name) == std::end(kOptimizerNames)) return std::nullopt;
  Optimizer optimizer = make_optimizer(name);
  while (!text.empty())
    if (!set_from_word(optimizer, next_word())) return std::nullopt;
  return optimizer;
}

}  // namespace

std::span<const std::string_view> optimizer_names() { return kOptimizerNames; }

Optimizer make_optimizer(std::string_view name) {
#define LOCKSTEP_MAKE(Type, stem) \
  if (name == #stem) return Type{};
  LOCKSTEP_OPTIMIZERS(LOCKSTEP_MAKE)
#undef LOCKSTEP_MAKE
  const std::string meant = nearest(name, kOptimizerNames);
  throw ConfigError(fmt::format("`optimizer` '{}' is unknown, expected {}",
                                as_written(name),
                                fmt::join(kOptimizerNames, ", ")),
                    meant.empty() ? std::string() : fmt::format("did you mean {}?", meant));
}

std::string_view name_of(const Optimizer& optimizer) { return kOptimizerNames[optimizer.index()]; }

std::vector<OptimizerHyperParameter> hyper_parameters(Optimizer& optimizer) {
  return std::visit([](auto& o) { return o.hyper_parameters(); }, optimizer);
}

void validate(const Optimizer& optimizer) {
  Optimizer copy = optimizer;
  for (const OptimizerHyperParameter& h : hyper_parameters(copy)) {
    const float* const* number = std::get_if<float*>(&h.value);
    if (number == nullptr || contains(h.range, **number)) continue;
    const std::string_view name = name_of(optimizer);
    throw ConfigError(
        fmt::format(
            "optimizer {}: `{}` must be {}, got {}", name, h.name, format_range(h.range), **number),
        fmt::format("the default is {}", default_of(name, h.name)));
  }
  std::visit([](const auto& o) { o.validate(); }, optimizer);
}

float learning_rate(const Optimizer& optimizer) {
  return std::visit([](const auto& o) { return o.lr; }, optimizer);
}

float weight_decay(const Optimizer& optimizer) {
  return std::visit([](const auto& o) { return o.weight_decay; }, optimizer);
}

bool is_adaptive(const Optimizer& optimizer) {
  return std::visit([](const auto& o) { return o.kAdaptive; }, optimizer);
}

StepScalars step_scalars(const Optimizer& optimizer, std::uint64_t step) {
  return std::visit([step](const auto& o) { return o.step_scalars(step); }, optimizer);
}

std::vector<std::string_view> state_names(const Optimizer& optimizer) {
  return std::visit([](const auto& o) { return o.state_names(); }, optimizer);
}

std::vector<UpdatePhase> update_phases(const Optimizer& optimizer) {
  return std::visit([](const auto& o) { return o.phases(); }, optimizer);
}

bool has_phase(const Optimizer& optimizer, UpdatePhase phase) {
  const std::vector<UpdatePhase> phases = update_phases(optimizer);
  return std::ranges::find(phases, phase) != phases.end();
}

int state_arrays(const Optimizer& optimizer) { return int(state_names(optimizer).size()); }

std::string to_string(const Optimizer& optimizer) {
  Optimizer copy = optimizer;
  std::string text(name_of(optimizer));
  for (const OptimizerHyperParameter& h : hyper_parameters(copy)) {
    if (const float* const* number = std::get_if<float*>(&h.value))
      text += fmt::format(" {}={}", h.name, **number);
    else if (*std::get<bool*>(h.value))
      text += fmt::format(" {}", h.name);
  }
  return text;
}

bool have_same_state(std::string_view then, std::string_view now) {
  const std::optional<Optimizer> a = parse(then), b = parse(now);
  return a && b && a->index() == b->index() && state_names(*a) == state_names(*b);
}

}  // namespace lockstep
