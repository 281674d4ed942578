// SPDX-License-Identifier: Apache-2.0
#include "core/data/shards/shard_list.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "core/base/check.h"
#include "core/base/file_kind.h"
#include "core/base/parameter_names.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kShardsHint =
    "expected shards as shard-{000000..000009}.tar, or a folder of .tar files";
constexpr const char* kShardParts[] = {"val", "valid", "validation", "test"};

[[noreturn]] void refuse_pattern(const std::string& pattern, const std::string& what) {
  throw ConfigError(fmt::format("data: {}: {}", as_written(pattern), what), kShardsHint);
}

/// "000000..000009"; empty where it is not a range.
std::vector<std::string> range_of(const std::string& pattern, std::string_view text) {
  const std::size_t dots = text.find("..");
  if (dots == text.npos) return {};
  const std::string_view first = text.substr(0, dots), last = text.substr(dots + 2);
  std::uint64_t from = 0, to = 0;
  const auto is_number = [](std::string_view digits, std::uint64_t& number) {
    const char* const end = digits.data() + digits.size();
    const auto parsed = std::from_chars(digits.data(), end, number);
    return parsed.ec == std::errc{} && parsed.ptr == end;
  };
  if (!is_number(first, from) || !is_number(last, to)) return {};
  if (from > to || to - from >= kMaxShards || first.size() > 32)
    refuse_pattern(pattern,
                   fmt::format("expected an ascending range of at most {} shards", kMaxShards));
  std::vector<std::string> numbers;
  for (std::uint64_t i = 0; i <= to - from; ++i)  // `to` may be the largest number there is
    numbers.push_back(fmt::format("{:0{}}", from + i, first.size()));
  return numbers;
}

std::vector<std::string> choices_of(const std::string& pattern, std::string_view text) {
  std::vector<std::string> choices = range_of(pattern, text);
  if (!choices.empty()) return choices;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    choices.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  if (choices.size() < 2) refuse_pattern(pattern, "expected {FIRST..LAST} or {A,B} in braces");
  return choices;
}

std::vector<std::string> tars_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator it(folder, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    const std::string name = it->path().filename().string();
    const bool is_tar =
        name.ends_with(".tar") || name.find(".tar.") != name.npos || name.ends_with(".tgz");
    if (!name.starts_with('.') && is_tar) names.push_back(it->path().string());
  }
  LOCKSTEP_CHECK(
      !error, DataError, "{}: cannot be read: {}", as_written(folder.string()), error.message());
  std::ranges::sort(names);
  return names;
}

/// Whether `word` stands in the file's name between characters that are not letters.
bool has_word(const std::string& path, std::string_view word) {
  const std::string name = fs::path(path).filename().string();
  const auto is_letter = [&](std::size_t at) {
    return at < name.size() && ((name[at] | 0x20) >= 'a' && (name[at] | 0x20) <= 'z');
  };
  for (std::size_t at = name.find(word); at != name.npos; at = name.find(word, at + 1))
    if ((at == 0 || !is_letter(at - 1)) && !is_letter(at + word.size())) return true;
  return false;
}

std::vector<std::string> with_word(const std::vector<std::string>& paths, std::string_view word) {
  std::vector<std::string> chosen;
  for (const std::string& path : paths)
    if (has_word(path, word)) chosen.push_back(path);
  return chosen;
}

ShardList shards_in_folder(const std::string& folder) {
  ShardList list;
  if (const fs::path train = fs::path(folder) / "train"; is_folder(train)) {
    list.train = tars_in(train);
    for (const char* part : kShardParts)
      if (const fs::path other = fs::path(folder) / part;
          list.validation.empty() && is_folder(other))
        list.validation = tars_in(other);
  } else {
    const std::vector<std::string> all = tars_in(folder);
    list.train = with_word(all, "train");
    for (const char* part : kShardParts)
      if (!list.train.empty() && list.validation.empty()) list.validation = with_word(all, part);
    if (list.train.empty()) list.train = all;
  }
  if (list.train.empty())
    throw DataError(fmt::format("{}: there are no .tar files in it", as_written(folder)),
                    kShardsHint);
  return list;
}

}  // namespace

std::vector<std::string> expand_braces(const std::string& pattern) {
  const std::size_t open = pattern.find('{');
  if (open == pattern.npos) {
    if (pattern.find('}') != pattern.npos) refuse_pattern(pattern, "a brace is not opened");
    return {pattern};
  }
  const std::size_t close = pattern.find('}', open);
  if (close == pattern.npos || pattern.find('{', open + 1) < close)
    refuse_pattern(pattern, "a brace is not closed");
  const std::vector<std::string> rest = expand_braces(pattern.substr(close + 1));
  std::vector<std::string> names;
  for (const std::string& choice :
       choices_of(pattern, std::string_view(pattern).substr(open + 1, close - open - 1)))
    for (const std::string& end : rest) {
      names.push_back(pattern.substr(0, open) + choice + end);
      if (names.size() > kMaxShards)
        refuse_pattern(pattern, fmt::format("expected at most {} shards", kMaxShards));
    }
  return names;
}

ShardList find_shards(const std::string& source) {
  if (source.find_first_of("{}") == source.npos || is_there(source)) {
    if (!is_there(source))
      throw DataError(fmt::format("{}: no such file or folder", as_written(source)), kShardsHint);
    if (is_folder(source)) return shards_in_folder(source);
    return {{source}, {}};
  }
  constexpr std::size_t kMaxPattern = 4096;
  if (source.size() > kMaxPattern) refuse_pattern(source, "the pattern is too long");
  ShardList list{expand_braces(source), {}};
  for (const std::string& shard : list.train)
    if (!is_there(shard))
      throw DataError(
          fmt::format("{}: no such file, which {} names", as_written(shard), as_written(source)),
          kShardsHint);
  return list;
}

}  // namespace lockstep::data
