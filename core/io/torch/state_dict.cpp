// SPDX-License-Identifier: Apache-2.0
#include "core/io/torch/state_dict.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <map>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/base/text/printable.h"

namespace lockstep::io::torch {
namespace {

using Kind = PickleValue::Kind;

constexpr std::string_view kWrappers[] = {"state_dict", "model", "model_state_dict", "model_state"};
constexpr std::size_t kMaxKeys = 1 << 16;

/// The values of a dict by their texts as keys; the last of a key counts, as in Python.
std::map<std::string_view, const PickleValue*> entries_of(const std::string& file,
                                                          const Pickle& pickle,
                                                          const PickleValue& dict) {
  std::map<std::string_view, const PickleValue*> entries;
  for (std::size_t i = 0; i < dict.items.size(); i += 2) {
    const PickleValue& key = pickle.at(dict.items[i]);
    if (key.kind == Kind::text) entries[key.text] = &pickle.at(dict.items[i + 1]);
    LOCKSTEP_CHECK(entries.size() <= kMaxKeys,
                   DataError,
                   "{}: a dict of more than {} keys",
                   as_written(file),
                   kMaxKeys);
  }
  return entries;
}

}  // namespace

StateDict state_dict_of(const std::string& file, const Pickle& pickle) {
  const std::string hint = "torch.save(model.state_dict(), FILE) in Python writes one";
  if (pickle.root().kind != Kind::dict)
    throw DataError(as_written(file) + ": holds no dict of tensors, which a state dict is", hint);
  StateDict result;
  auto entries = entries_of(file, pickle, pickle.root());
  for (const std::string_view wrapper : kWrappers) {
    const auto found = entries.find(wrapper);
    if (found == entries.end() || found->second->kind != Kind::dict) continue;
    entries = entries_of(file, pickle, *found->second);
    result.under = wrapper;
    break;
  }
  for (const auto& [name, value] : entries) {
    if (value->kind == Kind::tensor)
      result.tensors.emplace_back(name, &pickle.tensors()[std::size_t(value->number)]);
    else
      result.others.emplace_back(name);
  }
  if (!result.tensors.empty() || entries.empty()) return result;
  constexpr std::size_t kShown = 10;
  std::vector<std::string> shown;
  for (const std::string& key : result.others)
    if (shown.size() < kShown) shown.push_back(as_written(printable(key)));
  throw DataError(fmt::format("{}: its dict holds no tensor, but {}; expected a state dict, or one "
                              "under {}",
                              as_written(file),
                              fmt::join(shown, ", "),
                              fmt::join(kWrappers, ", ")),
                  hint);
}

}  // namespace lockstep::io::torch
