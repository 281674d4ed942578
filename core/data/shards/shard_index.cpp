// SPDX-License-Identifier: Apache-2.0
#include "core/data/shards/shard_index.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/base/text/printable.h"
#include "core/data/input_file.h"
#include "core/data/shards/tar_reader.h"

namespace lockstep::data {
namespace {

constexpr std::size_t kMaxLabelBytes = 256;
constexpr std::size_t kMaxJsonBytes = std::size_t{1} << 20;
constexpr std::int32_t kMaxShardClasses = 1 << 24;

enum class MemberKind { image, label, json, other };

struct MemberName {
  std::string_view key;
  MemberKind kind = MemberKind::other;
};

/// WebDataset's rule: the key ends at the first dot after the last slash.
MemberName parse_member_name(std::string_view name) {
  const std::size_t base = name.rfind('/') == name.npos ? 0 : name.rfind('/') + 1;
  const std::size_t dot = name.find('.', base);
  if (dot == name.npos || dot == base) return {};
  std::string ending(name.substr(dot + 1));
  for (char& c : ending)
    if (c >= 'A' && c <= 'Z') c = char(c | 0x20);
  MemberName result{name.substr(0, dot), MemberKind::other};
  if (ending == "jpg" || ending == "jpeg" || ending == "png") result.kind = MemberKind::image;
  if (ending == "cls") result.kind = MemberKind::label;
  if (ending == "json") result.kind = MemberKind::json;
  return result;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

/// Nothing: `text` is not an object with a label.
std::optional<std::string> label_in_json(const std::string& text) {
  const nlohmann::json parsed = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return std::nullopt;
  for (const char* key : {"cls", "class", "label", "target"}) {
    const auto found = parsed.find(key);
    if (found == parsed.end()) continue;
    if (found->is_string()) return found->get<std::string>();
    if (found->is_number_integer()) return found->dump();
  }
  return std::nullopt;
}

std::optional<std::int64_t> shard_number(std::string_view text) {
  std::int64_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

/// Collects the samples of one shard after the other.
class ShardIndexer {
 public:
  explicit ShardIndexer(std::vector<std::string> shards) { index_.shards = std::move(shards); }

  ShardIndex run() {
    for (std::size_t shard = 0; shard < index_.shards.size(); ++shard) read_shard(shard);
    LOCKSTEP_CHECK(!index_.samples.empty(),
                   DataError,
                   "{}: no sample in {} shard(s): expected KEY.jpg and KEY.cls",
                   as_written(index_.shards.at(0)),
                   index_.shards.size());
    return std::move(index_);
  }

 private:
  /// What is known of the sample whose members follow one another.
  struct Open {
    std::string key;
    std::optional<TarMember> image, label, json;
  };

  void read_shard(std::size_t shard) {
    TarReader tar(index_.shards[shard]);
    LOCKSTEP_CHECK(shard <= std::numeric_limits<std::uint32_t>::max(),
                   DataError,
                   "{}: too many shards",
                   as_written(index_.shards[shard]));
    index_.shard_bytes.push_back(tar.file().bytes());
    std::unordered_set<std::string> keys;
    std::optional<Open> open;
    sample_ = 0;
    while (std::optional<TarMember> member = tar.next()) {
      const MemberName name = parse_member_name(member->name);
      if (name.kind == MemberKind::other) continue;
      if (!open || open->key != name.key) {
        if (open) close(tar, shard, *open);
        open = Open{std::string(name.key), {}, {}, {}};
        if (!keys.insert(open->key).second)
          refuse(shard, open->key, "its key comes a second time in the shard");
        label_.clear();
      }
      add(tar, shard, *open, name.kind, *member);
    }
    if (open) close(tar, shard, *open);
  }

  void add(const TarReader& tar,
           std::size_t shard,
           Open& open,
           MemberKind kind,
           const TarMember& member) {
    std::optional<TarMember>& place = kind == MemberKind::image   ? open.image
                                      : kind == MemberKind::label ? open.label
                                                                  : open.json;
    if (place)
      refuse(shard,
             open.key,
             fmt::format("it has {} twice: {} and {}",
                         kind == MemberKind::image ? "an image" : "a label",
                         printable(place->name),
                         printable(member.name)));
    place = member;
    if (kind == MemberKind::label) label_ = label_text(tar, shard, open.key, member);
  }

  std::string label_text(const TarReader& tar,
                         std::size_t shard,
                         const std::string& key,
                         const TarMember& member) {
    const std::string text = tar.read_text(member, kMaxLabelBytes);
    const std::string_view label = trimmed(text);
    if (label.empty()) refuse(shard, key, "its label is empty");
    return std::string(label);
  }

  void close(const TarReader& tar, std::size_t shard, const Open& open) {
    if (!open.image) refuse(shard, open.key, "it has no .jpg, .jpeg or .png");
    if (!open.label && !open.json) refuse(shard, open.key, "it has no .cls or .json");
    if (!open.label) {
      const auto label = label_in_json(tar.read_text(*open.json, kMaxJsonBytes));
      if (!label || trimmed(*label).empty() || label->size() > kMaxLabelBytes)
        refuse(
            shard,
            open.key,
            "its .json is not an object with a text or whole number \"cls\", \"class\", \"label\" "
            "or \"target\"");
      label_ = trimmed(*label);
    }
    if (open.image->bytes > kMaxFileBytes)
      refuse(shard,
             open.key,
             fmt::format(
                 "its image has {} bytes, expected at most {}", open.image->bytes, kMaxFileBytes));
    const auto [known, is_new] = label_of_.emplace(label_, std::int32_t(index_.labels.size()));
    if (is_new) index_.labels.push_back(label_);
    index_.samples.push_back({open.image->offset,
                              std::uint32_t(open.image->bytes),
                              std::uint32_t(shard),
                              known->second});
    ++sample_;
  }

  [[noreturn]] void refuse(std::size_t shard, const std::string& key, const std::string& what) {
    throw DataError(fmt::format("{}: sample {} ({}): {}",
                                as_written(index_.shards[shard]),
                                sample_,
                                as_written(printable(key)),
                                as_written(what)),
                    "each sample is KEY.jpg and KEY.cls, one after the other; write the shard anew "
                    "without this one");
  }

  ShardIndex index_;
  std::unordered_map<std::string, std::int32_t> label_of_;
  std::int64_t sample_ = 0;  // of the shard
  std::string label_;        // of the open sample
};

/// The first sample with label `label`, for messages.
std::string first_with(const ShardIndex& index, std::size_t label) {
  const auto found = std::ranges::find(index.samples, std::int32_t(label), &ShardSample::label);
  return index.place(found - index.samples.begin());
}

}  // namespace

std::string ShardIndex::place(std::int64_t index) const {
  const std::uint32_t shard = samples[std::size_t(index)].shard;
  const auto first = std::ranges::lower_bound(samples, shard, {}, &ShardSample::shard);
  return fmt::format("{}: sample {}", shards[shard], index - (first - samples.begin()));
}

ShardIndex index_shards(std::vector<std::string> shards) {
  return ShardIndexer(std::move(shards)).run();
}

ShardClasses find_shard_classes(const ShardIndex& index) {
  std::int64_t largest = -1;
  std::optional<std::size_t> number, text;
  for (std::size_t i = 0; i < index.labels.size(); ++i) {
    const std::optional<std::int64_t> value = shard_number(index.labels[i]);
    (value ? number : text) = i;
    if (!value) continue;
    LOCKSTEP_CHECK(*value >= 0 && *value < kMaxShardClasses,
                   DataError,
                   "{}: expected a class from 0 to {}, got {}",
                   as_written(first_with(index, i)),
                   kMaxShardClasses - 1,
                   *value);
    largest = std::max(largest, *value);
  }
  if (number && text)
    throw DataError(fmt::format("{}: its class is '{}', where others are numbers, as '{}' of {}",
                                as_written(first_with(index, *text)),
                                as_written(printable(index.labels[*text])),
                                as_written(index.labels[*number]),
                                as_written(first_with(index, *number))),
                    "write all classes as numbers, or all as names");
  ShardClasses classes;
  if (text) {
    classes.names = index.labels;
    std::ranges::sort(classes.names);
  }
  classes.count = text ? int(classes.names.size()) : int(largest + 1);
  LOCKSTEP_CHECK(classes.count >= 2,
                 DataError,
                 "{}: expected at least 2 classes, got '{}' alone",
                 as_written(index.place(0)),
                 as_written(printable(index.labels[0])));
  return classes;
}

std::vector<std::int32_t> ShardClasses::classes_of(const ShardIndex& index) const {
  std::unordered_map<std::string_view, std::int64_t> class_of;
  for (std::size_t i = 0; i < names.size(); ++i) class_of.emplace(names[i], std::int64_t(i));
  std::vector<std::int32_t> result;
  for (std::size_t i = 0; i < index.labels.size(); ++i) {
    const std::string& label = index.labels[i];
    const auto name = class_of.find(label);
    const std::int64_t found = names.empty()            ? shard_number(label).value_or(-1)
                               : name == class_of.end() ? -1
                                                        : name->second;
    if (found < 0 || found >= count)
      throw DataError(fmt::format("{}: class '{}' is not one of the {} that training has",
                                  as_written(first_with(index, i)),
                                  as_written(printable(label)),
                                  count),
                      "classes are named or numbered like those of training");
    result.push_back(std::int32_t(found));
  }
  return result;
}

}  // namespace lockstep::data
