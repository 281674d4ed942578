// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings/other_settings.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/input_file.h"
#include "launcher/processes/host_facts.h"
#include "launcher/settings/config_file.h"
#include "launcher/settings/open_data.h"
#include "launcher/settings/resume_target.h"
#include "launcher/settings/table/setting.h"
#include "launcher/settings/toml_reader.h"
#include "launcher/settings/working_folder.h"
#include "parallel/batch/run_settings.h"

namespace lockstep {
namespace {

using Settings = std::map<std::string, std::string>;
using Keys = std::vector<std::string>;

/// Flag and value, as a configuration file has them.
Settings settings_of(const std::string& toml) {
  std::vector<TomlEntry> entries = read_toml(toml, "config.toml");
  const std::string folder = take_working_folder(entries);
  Settings settings;
  for (const TomlEntry& entry : entries)
    settings[entry.key] = fmt::format("{}", fmt::join(entry.values, ","));
  for (const char* path : {"data", "init", "tokenizer"})
    if (const auto entry = settings.find(path); entry != settings.end())
      entry->second = path == std::string_view("data") ? data_found_from(folder, entry->second)
                                                       : file_found_from(folder, entry->second);
  return settings;
}

Settings settings_in(const std::string& checkpoint) {
  try {
    return settings_of(data::read_text_file(checkpoint + "/config.toml", ""));
  } catch (const Error&) {
    return {};  // a checkpoint of a program that is not this one
  }
}

/// Settings that a key of the library's has parts in. The first says which of the others there are.
Keys flags_of(const std::string& key) {
  static const std::map<std::string, std::string> kParts{
      {"validation data content", "data content"}, {std::string(kDataSample), "data content"}};
  static const std::map<std::string, Keys> kOthers{
      {"init", {"init"}}, {"augment of the source", {"augment"}}, {"fusion in bf16", {"fusion"}}};
  if (const auto found = kOthers.find(key); found != kOthers.end()) return found->second;
  const auto same = kParts.find(key);
  const std::string& part = same == kParts.end() ? key : same->second;
  Keys flags;
  for (const Setting& setting : settings_table())
    if (setting.part_of == part) flags.push_back(setting.name);
  return flags;
}

std::string line(const std::string& flag, const std::string& then, const std::string& now) {
  const auto shown = [](const std::string& value) { return value.empty() ? "nothing" : value; };
  return fmt::format("--{} {} then, {} now", flag, shown(then), shown(now));
}

std::string value_or_absent(const Settings& settings, const std::string& key) {
  const auto entry = settings.find(key);
  if (entry != settings.end()) return entry->second;
  // A version before wrote what is off.
  const Setting* const setting = find_setting(key);
  const bool is_flag = setting != nullptr && setting->arity == Setting::Arity::flag;
  return is_flag ? "false" : key == "val-fraction" ? "0" : "absent";
}

/// What differs of `flags`. Where the first does, others that only one side has follow from it; but
/// sources of one kind have the same flags.
Keys lines_of(const Keys& flags, const Settings& then, const Settings& now) {
  Keys lines;
  if (then.empty() || flags.empty()) return lines;
  const std::string first_then = value_or_absent(then, flags[0]);
  const std::string first_now = value_or_absent(now, flags[0]);
  const bool other_first = flags[0] == "data" ? source_kind(first_then) != source_kind(first_now)
                                              : first_then != first_now;
  for (const std::string& flag : flags) {
    const bool follows =
        flag != flags[0] && other_first && then.contains(flag) != now.contains(flag);
    if (value_or_absent(then, flag) != value_or_absent(now, flag) && !follows)
      lines.push_back(line(flag, value_or_absent(then, flag), value_or_absent(now, flag)));
  }
  return lines;
}

/// What to say of a hash for which no flag answers.
std::string words_of_hash(const std::string& key, const Settings& then, const Settings& now) {
  if (key == "model")
    return then.empty() ? "the model is another one"
                        : fmt::format(
                              "the model has the same flags, but this version of the program, {}, "
                              "makes another of them or of the data",
                              lockstep_version());
  return fmt::format("the content of {}--data {} has changed",
                     key == "validation data content" ? "the validation part of " : "",
                     value_or_absent(now, "data"));
}

/// What to do.
std::string hint_of(const OtherSettings& error, const TrainFlags& flags) {
  const std::string own = error.checkpoint() + "/config.toml";
  std::error_code ignored;
  const bool by_itself =
      std::filesystem::equivalent(config_of_run(flags.resume, flags.out), own, ignored);
  const std::string same = by_itself
                               ? "without flags but --resume and --out the run resumes with its "
                                 "own settings; "
                               : fmt::format(
                                     "with --resume, --out and --config {} alone the run "
                                     "resumes with its own settings; ",
                                     own);
  if (error.can_override()) return same + "--resume-override takes those of now";
  return same + fmt::format(
                    "--resume-override cannot take another optimizer, or momentum where "
                    "there was none, since the checkpoint has the state of its own: a new "
                    "run from its weights is --init {}/model.safetensors --out DIR",
                    error.checkpoint());
}

}  // namespace

ConfigError in_flags(const OtherSettings& error, const TrainFlags& flags) {
  const Settings then = settings_in(error.checkpoint()), now = settings_of(to_toml(flags));
  Keys lines, hashes;
  const auto add = [&](const std::string& text) {
    if (std::ranges::find(lines, text) == lines.end()) lines.push_back(text);
  };
  for (const SettingDifference& difference : error.differences()) {
    const Keys parts = flags_of(difference.key);
    const Keys found = lines_of(parts, then, now);
    std::ranges::for_each(found, add);
    const bool hash = is_hash(difference.key);
    if (found.empty() && hash) hashes.push_back(difference.key);
    if (found.empty() && !hash)
      add(line(parts.size() == 1 ? parts[0] : difference.key, difference.then, difference.now));
  }
  // The model and what is drawn of the data follow from other settings as well.
  const bool explained = !lines.empty();
  for (const std::string& key : hashes)
    if (!explained && (key != "model" || hashes.size() == 1)) add(words_of_hash(key, then, now));
  return ConfigError(fmt::format("{}: the run was made with other settings: {}",
                                 error.checkpoint(),
                                 fmt::join(lines, "; ")),
                     hint_of(error, flags));
}

}  // namespace lockstep
