// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings/config_file.h"

#include <algorithm>
#include <fmt/ranges.h>

#include "core/base/check.h"
#include "core/base/file_kind.h"
#include "core/base/parameter_names.h"
#include "core/data/input_file.h"
#include "launcher/settings/flag_synonyms.h"
#include "launcher/settings/flag_values.h"
#include "launcher/settings/toml_reader.h"
#include "launcher/settings/working_folder.h"

namespace lockstep {
namespace {

/// As messages name the file: by its flag only where the user gave that.
std::string name_of(const std::string& file, ConfigSource source) {
  return source == ConfigSource::typed ? "--config " + file : file;
}

std::string read_whole(const std::string& file, const std::string& name) {
  LOCKSTEP_CHECK(is_there(file), ConfigError, "{}: no such file", as_written(name));
  LOCKSTEP_CHECK(is_file(file), ConfigError, "{}: not a readable file", as_written(name));
  constexpr std::uint64_t kMaxBytes = 1 << 20;
  LOCKSTEP_CHECK(data::input_file_size(file, "") <= kMaxBytes,
                 ConfigError,
                 "{}: more than {} bytes, too large for a configuration file",
                 as_written(name),
                 kMaxBytes);
  return data::read_text_file(file, "");
}

/// `place`: of the key in the file.
[[noreturn]] void unknown_key(const CLI::App& app,
                              const std::string& key,
                              const std::string& place) {
  if (key == "config")
    throw ConfigError(
        fmt::format("{}: the key config belongs to the command line", as_written(place)),
        "take it out: one file has all settings");
  const std::string hint = flag_hint(app, key, "");
  throw ConfigError(fmt::format("{}: unknown key {}", as_written(place), as_written(key)),
                    hint.empty() ? "lockstep train --help lists all flags" : hint);
}

/// One string of several values, as the command line takes them.
Texts split_at_commas(const Texts& texts) {
  Texts result;
  for (const std::string& text : texts) {
    std::size_t begin = 0;
    for (std::size_t end = text.find(','); end != text.npos; end = text.find(',', begin)) {
      result.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
    result.push_back(text.substr(begin));
  }
  return result;
}

/// As TOML: numbers and truth values bare, all else as strings.
std::string toml_value(const Setting& setting, const Texts& texts) {
  if (setting.arity == Setting::Arity::list) {
    std::vector<std::string> values;
    for (const std::string& text : texts) values.push_back(toml_string(text));
    return fmt::format("[{}]", fmt::join(values, ", "));
  }
  const std::string& text = texts.back();
  // Only as TOML has them: 7, not 007.
  const bool is_canonical =
      text == fmt::format("{}", to_whole_number(text)) ||
      (is_number(text) && text == fmt::format("{}", float(to_real_number(text)))) ||
      (is_number(text) && text == fmt::format("{}", to_real_number(text)));
  const bool bare = setting.arity == Setting::Arity::flag || is_canonical;
  return bare ? text : toml_string(text);
}

}  // namespace

std::string read_config_file(const std::string& file,
                             ConfigSource source,
                             const CLI::App& app,
                             GivenSettings& given) {
  const std::string name = name_of(file, source);
  std::vector<TomlEntry> entries = read_toml(read_whole(file, name), name);
  const std::string folder = take_working_folder(entries);
  std::string data;
  for (TomlEntry& entry : entries) {
    const std::string place = fmt::format("{}, line {}", name, entry.line);
    const Setting* const setting = find_setting(entry.key);
    if (setting == nullptr) unknown_key(app, entry.key, place);
    if (entry.key == "data") data = entry.values.back();
    if (given.has(entry.key)) continue;
    const bool is_path = setting->type.ends_with("DIR");
    LOCKSTEP_CHECK(!is_path || !entry.values.back().empty(),
                   ConfigError,
                   "{}: {} is empty, expected {}",
                   as_written(place),
                   entry.key,
                   setting->type);
    if (setting->commas) entry.values = split_at_commas(entry.values);
    // Runs of earlier versions recorded their default, at most 64 shards, as auto. Later ones
    // record the number.
    if (entry.key == "shards" && entry.values.back() == "auto" &&
        (source != ConfigSource::typed || !folder.empty()))
      continue;
    // What a run was begun from, and the tokenizer, which its folder holds, are not read again.
    if (source == ConfigSource::saved_run &&
        (entry.key == "init" || entry.key == "init-skip" || entry.key == "tokenizer"))
      continue;
    if (entry.key == "data") entry.values.back() = data_found_from(folder, data);
    if (entry.key == "more-data")
      for (std::string& other : entry.values) other = data_found_from(folder, other);
    if (entry.key == "init" || entry.key == "tokenizer" || entry.key == "teacher")
      entry.values.back() = file_found_from(folder, entry.values.back());
    given.ranks_from_run |= source != ConfigSource::typed && entry.key == "ranks";
    given.set(entry.key, std::move(entry.values), SettingSource::file, place);
  }
  return data;
}

std::string to_toml(const TrainFlags& flags) {
  std::string toml = "# lockstep train --config THIS_FILE repeats this run (into another --out).\n";
  if (const std::string folder = working_folder(); !folder.empty())
    toml += fmt::format("{} = {}\n", kWorkingFolder, toml_string(folder));
  for (const Setting& setting : settings_table()) {
    if (!setting.saved || broken_condition(setting, flags, "") != nullptr) continue;
    if (const auto texts = setting.get(flags))
      if (broken_condition(setting, flags, texts->back()) == nullptr)
        toml += fmt::format("{} = {}\n", setting.name, toml_value(setting, *texts));
  }
  return toml;
}

}  // namespace lockstep
