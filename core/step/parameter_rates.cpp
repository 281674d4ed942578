// SPDX-License-Identifier: Apache-2.0
#include "core/step/parameter_rates.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/base/text/name_patterns.h"
#include "core/base/text/number_format.h"

namespace lockstep {
namespace {

bool is_trained(const Parameter& parameter) {
  return parameter.kind == ParameterKind::trained && !parameter.frozen;
}

/// Whether a part of a name counts layers: "3", or "encoder_layer_3" as torchvision's vision
/// transformers have it.
bool is_numbered(std::string_view part) {
  const std::size_t digits = part.find_last_not_of("0123456789") + 1;  // 0: all are
  return digits < part.size() && (digits == 0 || part[digits - 1] == '_');
}

/// A layer's name in a parameter's: see layers_of().
struct LayerName {
  std::string_view text;  ///< empty: the parameter's name has none
  bool is_block = false;  ///< ends in the second of two numbers
  bool operator==(const LayerName&) const = default;
};

/// Up to and with the first part that is numbered, and a number that follows it.
LayerName numbered_prefix(std::string_view name) {
  if (name.starts_with("classifier.")) return {};
  for (std::size_t begin = 0; begin < name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    begin = end + 1;
    if (!is_numbered(part)) continue;
    if (begin >= name.size()) return {name};
    const std::size_t next = std::min(name.find('.', begin), name.size());
    const std::string_view after = name.substr(begin, next - begin);
    const bool number = after.find_first_not_of("0123456789") == after.npos;
    return {name.substr(0, number ? next : end), number};
  }
  return {};
}

/// Those of all parameters. A second number counts blocks where one of its parameters has a name of
/// several parts ("1.0.block.0.weight"), otherwise what a stem is made of ("0.1.weight").
std::vector<LayerName> layer_names(std::span<const Parameter> parameters) {
  std::vector<LayerName> names;
  std::set<std::string_view> of_several_parts;
  for (const Parameter& parameter : parameters) {
    const LayerName name = names.emplace_back(numbered_prefix(parameter.name));
    if (parameter.name.find('.', name.text.size() + 1) != std::string::npos)
      of_several_parts.insert(name.text);
  }
  for (LayerName& name : names)
    if (name.is_block && !of_several_parts.contains(name.text))
      name = {name.text.substr(0, name.text.rfind('.'))};
  return names;
}

/// The group of each parameter.
std::vector<int> groups_of(std::span<const Parameter> parameters,
                           const std::vector<ParameterGroup>& groups) {
  std::vector<int> found(parameters.size(), -1);
  const auto trained = std::ranges::count_if(parameters, is_trained);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const NamePatterns pattern("`group`", {groups[g].pattern});
    std::vector<std::string> names;
    std::ptrdiff_t matched = 0;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (!is_trained(parameters[i])) continue;
      names.push_back(parameters[i].name);
      if (!pattern.match(parameters[i].name)) continue;
      ++matched;
      if (found[i] < 0) found[i] = int(g);
    }
    pattern.expect_matches(names);
    if (matched == trained && g == 0)
      throw ConfigError(fmt::format("`group`: '{}' is found in all {} parameters that are trained",
                                    as_written(groups[g].pattern),
                                    trained),
                        "set the optimizer's own `lr` and `weight_decay` instead");
    // The first match wins, so that a later group may be left with nothing.
    LOCKSTEP_CHECK(std::ranges::count(found, int(g)) > 0,
                   ConfigError,
                   "`group`: all parameters of '{}' belong to groups before it",
                   as_written(groups[g].pattern));
  }
  return found;
}

void validate(const ParameterGroup& group, const Optimizer& optimizer) {
  const std::string text = as_written(to_string(group));
  LOCKSTEP_CHECK(group.lr || group.weight_decay,
                 ConfigError,
                 "`group` '{}' has no setting, expected `lr`, `weight_decay` or both",
                 text);
  for (const std::optional<float>& value : {group.lr, group.weight_decay})
    LOCKSTEP_CHECK(!value || (std::isfinite(*value) && *value >= 0.0f),
                   ConfigError,
                   "`group` '{}': a value is not finite or below 0",
                   text);
  LOCKSTEP_CHECK(!group.lr || learning_rate(optimizer) > 0,
                 ConfigError,
                 "`group` '{}' has a rate, and the optimizer's `lr` is 0: the schedule scales both "
                 "alike",
                 text);
}

}  // namespace

std::vector<int> layers_of(std::span<const Parameter> parameters) {
  std::vector<int> layers;
  std::vector<bool> is_block{false};  // of each layer
  LayerName before;
  std::size_t last_numbered = 0;
  for (const LayerName& name : layer_names(parameters)) {
    if (!name.text.empty()) {
      if (name != before && !layers.empty()) is_block.push_back(false);
      is_block.back() = name.is_block;
      before = name;
      last_numbered = layers.size();
    }
    layers.push_back(int(is_block.size()) - 1);
  }
  if (!before.text.empty())
    for (std::size_t i = last_numbered + 1; i < layers.size(); ++i) ++layers[i];
  // What lies between two blocks joins the one after it.
  for (int i = int(is_block.size()) - 2; i > 0; --i)
    if (is_block[std::size_t(i) - 1] && !is_block[std::size_t(i)] && is_block[std::size_t(i) + 1])
      for (int& layer : layers) layer -= layer > i;
  return layers;
}

std::vector<ParameterRates> parameter_rates(std::span<const Parameter> parameters,
                                            const Optimizer& optimizer,
                                            const ParameterRules& rules) {
  LOCKSTEP_CHECK(rules.layer_decay > 0.0f && rules.layer_decay <= 1.0f,
                 ConfigError,
                 "`layer_decay` must be in (0, 1], got {}",
                 rules.layer_decay);
  for (const ParameterGroup& group : rules.groups) validate(group, optimizer);
  const NamePatterns no_decay("`no_decay`", rules.no_decay);
  const std::vector<int> groups = groups_of(parameters, rules.groups);
  const std::vector<int> layers = layers_of(parameters);
  int last = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].kind == ParameterKind::trained) last = std::max(last, layers[i]);
  LOCKSTEP_CHECK(rules.layer_decay == 1.0f || last > 0,
                 ConfigError,
                 "`layer_decay`: no name of a parameter has a part that is a number, as in "
                 "layer1.0.conv1.weight, so that there are no layers");
  std::vector<ParameterRates> rates;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    ParameterRates& of = rates.emplace_back();
    if (!is_trained(parameter)) continue;
    const bool decays =
        (!parameter.normalisation_or_bias || rules.decay_all) && !no_decay.match(parameter.name);
    of.weight_decay = decays ? weight_decay(optimizer) : 0.0f;
    double scale = rules.layer_decay == 1.0f
                       ? 1.0
                       : std::pow(double(rules.layer_decay), double(last - layers[i]));
    if ((of.group = groups[i]) >= 0) {
      const ParameterGroup& group = rules.groups[std::size_t(of.group)];
      if (group.lr) scale *= double(*group.lr) / double(learning_rate(optimizer));
      if (group.weight_decay) of.weight_decay = *group.weight_decay;
    }
    of.lr_scale = float(scale);
    LOCKSTEP_CHECK(std::isfinite(of.lr_scale),
                   ConfigError,
                   "`group`: the rate of {} is too many times the optimizer's `lr` {}",
                   parameter.name,
                   learning_rate(optimizer));
  }
  return rates;
}

std::string to_string(const ParameterGroupUse& use) {
  return fmt::format("{} ({} tensor{}, {} values)",
                     use.text,
                     use.tensors,
                     use.tensors == 1 ? "" : "s",
                     format_count(double(use.elems)));
}

std::vector<ParameterGroupUse> group_uses(std::span<const Parameter> parameters,
                                          std::span<const ParameterRates> rates,
                                          std::span<const ParameterGroup> groups) {
  std::vector<ParameterGroupUse> uses;
  for (const ParameterGroup& group : groups) uses.push_back({.text = to_string(group)});
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (rates[i].group < 0) continue;
    ParameterGroupUse& use = uses[std::size_t(rates[i].group)];
    ++use.tensors;
    use.elems += parameters[i].shape.elems();
  }
  return uses;
}

}  // namespace lockstep
