// SPDX-License-Identifier: Apache-2.0
#include "core/io/checkpoint/checkpoint_state.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/io/checkpoint/checkpoint_names.h"
#include "core/io/strict_json.h"

namespace lockstep::io {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::array kKeys{
    "step",          "samples",         "wall_s",          "train_loss",
    "evaluated",     "val_loss",        "val_accuracy",    "best_val_loss",
    "best_step",     "settings",        "open_labels",     "open_loss",
    "open_accuracy", "skipped_steps",   "skipped_in_row",  "left_out",
    "rollbacks",     "loss_mean",       "loss_variance",   "loss_count",
    "rollback_base", "lowest_val_loss", "lowest_val_step", "validations_since_lowest"};

ordered_json real_to_json(double value) {
  if (std::isnan(value)) return nullptr;
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

/// The values of one state.json, each checked.
class Fields {
 public:
  Fields(const std::string& file, std::string_view text)
      : file_(file), object_(parse_strict_json(text, file, 3)) {
    LOCKSTEP_CHECK(object_.is_object(), DataError, "{}: expected a JSON object", as_written(file));
    for (const auto& [key, value] : object_.items())
      LOCKSTEP_CHECK(std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end(),
                     DataError,
                     "{}: unknown key '{}'",
                     as_written(file),
                     as_written(key));
  }

  std::int64_t whole(const char* key, std::int64_t least) const {
    const json& value = get(key);
    const bool fits = value.is_number_integer() &&
                      !(value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX);
    expect(fits && value.get<std::int64_t>() >= least,
           key,
           fmt::format("a whole number of at least {}", least));
    return value.get<std::int64_t>();
  }

  double real(const char* key) const {
    const json& value = get(key);
    if (value.is_null()) return CheckpointState::kUnknown;
    if (value == "inf") return std::numeric_limits<double>::infinity();
    if (value == "-inf") return -std::numeric_limits<double>::infinity();
    expect(value.is_number(), key, "a number or null");
    return value.get<double>();
  }

  double finite(const char* key) const {
    expect(get(key).is_number(), key, "a finite number");
    return get(key).get<double>();
  }

  bool flag(const char* key) const {
    expect(get(key).is_boolean(), key, "true or false");
    return get(key).get<bool>();
  }

  bool has(const char* key) const { return object_.contains(key); }

  std::vector<BatchRange> ranges(const char* key) const {
    const std::string expected = "a list of pairs of batch indices, in ascending order";
    const auto is_count = [](const json& value) {
      return value.is_number_unsigned() && value.get<std::uint64_t>() <= INT64_MAX;
    };
    expect(get(key).is_array(), key, expected);
    std::vector<BatchRange> result;
    for (const json& pair : get(key)) {
      expect(pair.is_array() && pair.size() == 2 && is_count(pair[0]) && is_count(pair[1]),
             key,
             expected);
      const BatchRange range{pair[0].get<std::int64_t>(), pair[1].get<std::int64_t>()};
      expect(range.first < range.last && (result.empty() || result.back().last < range.first),
             key,
             expected);
      result.push_back(range);
    }
    return result;
  }

  std::vector<std::pair<std::string, std::string>> pairs(const char* key) const {
    const std::string expected = "a list of pairs of strings";
    expect(get(key).is_array(), key, expected);
    std::vector<std::pair<std::string, std::string>> result;
    for (const json& pair : get(key)) {
      expect(pair.is_array() && pair.size() == 2 && pair[0].is_string() && pair[1].is_string(),
             key,
             expected);
      result.emplace_back(pair[0].get<std::string>(), pair[1].get<std::string>());
    }
    return result;
  }

 private:
  const json& get(const char* key) const {
    const auto found = object_.find(key);
    LOCKSTEP_CHECK(
        found != object_.end(), DataError, "{}: '{}' is missing", as_written(file_), key);
    return *found;
  }
  void expect(bool condition, const char* key, const std::string& expected) const {
    LOCKSTEP_CHECK(condition,
                   DataError,
                   "{}: '{}' must be {}, got {}",
                   as_written(file_),
                   key,
                   expected,
                   as_written(get(key).dump().substr(0, 100)));
  }

  std::string file_;
  json object_;
};

ordered_json settings_to_json(const CheckpointState& state) {
  ordered_json settings = ordered_json::array();
  for (const auto& [key, value] : state.settings) {
    ordered_json pair{key, value};
    try {
      (void)pair.dump();
    } catch (const json::exception&) {
      throw DataError(
          fmt::format("{}: setting '{}' is not UTF-8 and cannot be saved", kStateFile, key),
          "rename the file or folder that it names");
    }
    settings.push_back(std::move(pair));
  }
  return settings;
}

void add_open_means(const CheckpointState& state, ordered_json& object) {
  if (state.open_labels == 0) return;
  object["open_labels"] = real_to_json(state.open_labels);
  object["open_loss"] = real_to_json(state.open_loss);
  object["open_accuracy"] = real_to_json(state.open_accuracy);
}

void read_open_means(const Fields& fields, CheckpointState& state) {
  if (!fields.has("open_labels")) return;
  state.open_labels = fields.finite("open_labels");
  state.open_loss = fields.finite("open_loss");
  state.open_accuracy = fields.finite("open_accuracy");
}

void add_early_stop(const CheckpointState& state, ordered_json& object) {
  if (state.lowest_val_step < 0 && state.validations_since_lowest == 0) return;
  object["lowest_val_loss"] = real_to_json(state.lowest_val_loss);
  object["lowest_val_step"] = state.lowest_val_step;
  object["validations_since_lowest"] = state.validations_since_lowest;
}

void read_early_stop(const Fields& fields, CheckpointState& state) {
  if (!fields.has("lowest_val_step")) return;
  state.lowest_val_loss = fields.real("lowest_val_loss");
  state.lowest_val_step = fields.whole("lowest_val_step", -1);
  state.validations_since_lowest = fields.whole("validations_since_lowest", 0);
}

void add_faults(const CheckpointState& state, ordered_json& object) {
  if (state.skipped_steps > 0) {
    object["skipped_steps"] = state.skipped_steps;
    object["skipped_in_row"] = state.skipped_in_row;
  }
  if (state.rollbacks > 0) object["rollbacks"] = state.rollbacks;
  if (!state.skipped_batches.empty()) {
    object["left_out"] = ordered_json::array();
    for (const BatchRange& range : state.skipped_batches)
      object["left_out"].push_back(ordered_json::array({range.first, range.last}));
  }
  if (state.rollback_base >= 0) object["rollback_base"] = state.rollback_base;
  if (state.loss_count == 0) return;
  object["loss_mean"] = real_to_json(state.loss_mean);
  object["loss_variance"] = real_to_json(state.loss_variance);
  object["loss_count"] = state.loss_count;
}

void read_faults(const Fields& fields, CheckpointState& state) {
  if (fields.has("skipped_steps")) {
    state.skipped_steps = fields.whole("skipped_steps", 0);
    state.skipped_in_row = fields.whole("skipped_in_row", 0);
  }
  if (fields.has("rollbacks")) state.rollbacks = fields.whole("rollbacks", 0);
  if (fields.has("left_out")) state.skipped_batches = fields.ranges("left_out");
  if (fields.has("rollback_base")) state.rollback_base = fields.whole("rollback_base", 0);
  if (!fields.has("loss_count")) return;
  state.loss_mean = fields.finite("loss_mean");
  state.loss_variance = fields.finite("loss_variance");
  state.loss_count = fields.whole("loss_count", 0);
}

}  // namespace

std::string to_text(const CheckpointState& state) {
  ordered_json object{{"step", state.step},
                      {"samples", state.samples},
                      {"wall_s", real_to_json(state.wall_s)},
                      {"train_loss", real_to_json(state.train_loss)},
                      {"evaluated", state.evaluated},
                      {"val_loss", real_to_json(state.val_loss)},
                      {"val_accuracy", real_to_json(state.val_accuracy)},
                      {"best_val_loss", real_to_json(state.best_val_loss)},
                      {"best_step", state.best_step},
                      {"settings", settings_to_json(state)}};
  add_open_means(state, object);
  add_early_stop(state, object);
  add_faults(state, object);
  return object.dump() + "\n";
}

CheckpointState parse_state(const std::string& file, std::string_view text) {
  const Fields fields(file, text);
  CheckpointState state;
  state.step = fields.whole("step", 0);
  state.samples = fields.whole("samples", 0);
  state.wall_s = fields.real("wall_s");
  state.train_loss = fields.real("train_loss");
  state.evaluated = fields.flag("evaluated");
  state.val_loss = fields.real("val_loss");
  state.val_accuracy = fields.real("val_accuracy");
  state.best_val_loss = fields.real("best_val_loss");
  state.best_step = fields.whole("best_step", -1);
  state.settings = fields.pairs("settings");
  read_open_means(fields, state);
  read_early_stop(fields, state);
  read_faults(fields, state);
  return state;
}

}  // namespace lockstep::io
