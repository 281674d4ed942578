// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/mutation.h"

#include <algorithm>
#include <utility>

namespace lockstep::fuzz {
namespace {

constexpr std::uint64_t kExtremes[] = {0,
                                       1,
                                       2,
                                       3,
                                       4,
                                       8,
                                       16,
                                       255,
                                       256,
                                       65535,
                                       65536,
                                       (1ull << 31) - 1,
                                       1ull << 31,
                                       (1ull << 32) - 1,
                                       1ull << 32,
                                       (1ull << 53) + 1,
                                       1ull << 61,
                                       1ull << 62,
                                       (1ull << 63) - 1,
                                       1ull << 63,
                                       ~0ull - 7,
                                       ~0ull};
constexpr int kMaxDepth = 64;

bool is_shallow(std::string_view text) {
  int depth = 0;
  for (const char c : text) {
    depth += int(c == '[' || c == '{') - int(c == ']' || c == '}');
    if (depth > kMaxDepth) return false;
  }
  return true;
}

void collect(Json& value, std::vector<Json*>& nodes) {
  nodes.push_back(&value);
  if (value.is_structured())
    for (Json& child : value) collect(child, nodes);
}

std::string any_word(Random& random, Words words) {
  if (words.empty() || random.one_in(8)) return mutated_text("a");
  return std::string(random.pick(words));
}

Json any_scalar(Random& random, Words words) {
  switch (random.below(9)) {
    case 0:
      return nullptr;
    case 1:
      return random.one_in(2);
    case 2:
      return -std::int64_t(extreme_number(1, random) >> 1);
    case 3:
      return double(extreme_number(1, random)) / 3;
    case 4:
      return 1e300;
    case 5:
      return Json::array();
    case 6:
      return Json::object();
    case 7:
      return any_word(random, words);
    default:
      return extreme_number(1, random);
  }
}

void change_scalar(Json& value, Random& random, Words words) {
  if (value.is_string() && random.one_in(2)) {
    value = random.one_in(2) ? any_word(random, words) : mutated_text(value.get<std::string>());
  } else if (value.is_number_unsigned() && !random.one_in(4)) {
    value = extreme_number(value.get<std::uint64_t>(), random);
  } else {
    value = any_scalar(random, words);
  }
}

void change_object(Json& value, const Json& other, Random& random, Words words) {
  auto& members = value.get_ref<Json::object_t&>();
  const auto member = std::next(members.begin(), std::ptrdiff_t(random.below(members.size())));
  switch (members.empty() ? 0 : random.below(4)) {
    case 0:
      value[any_word(random, words)] = other;
      break;
    case 1:
      members.erase(member);
      break;
    case 2: {
      const Json moved = member->second;
      members.erase(member);
      value[any_word(random, words)] = moved;
      break;
    }
    default:
      std::swap(member->second, random.pick(members).second);
  }
}

void change_list(Json& value, const Json& other, Random& random) {
  const auto at = std::ptrdiff_t(random.below(value.size()));
  switch (value.empty() ? 0 : random.below(4)) {
    case 0:
      value.push_back(other);
      break;
    case 1:
      value.erase(value.begin() + at);
      break;
    case 2:
      value.insert(value.begin() + at, Json(value[std::size_t(at)]));
      break;
    default:
      std::swap(value[std::size_t(at)], value[random.below(value.size())]);
  }
}

}  // namespace

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  words.push_back({});
  return words;
}

std::uint64_t extreme_number(std::uint64_t value, Random& random) {
  switch (random.below(6)) {
    case 0:
      return value + 1;
    case 1:
      return value - 1;
    case 2:
      return value * 2;
    case 3:
      return value ^ (1ull << random.below(64));
    default:
      return random.pick(kExtremes);
  }
}

std::string mutated_text(std::string_view text) {
  constexpr std::size_t kGrowth = 16;
  Bytes bytes(text.begin(), text.end());
  bytes.resize(text.size() + kGrowth);
  bytes.resize(LLVMFuzzerMutate(bytes.data(), text.size(), bytes.size()));
  return {bytes.begin(), bytes.end()};
}

std::optional<Json> read_json(std::string_view text) {
  if (!is_shallow(text)) return std::nullopt;
  Json value = Json::parse(text, nullptr, false);
  if (value.is_discarded()) return std::nullopt;
  return value;
}

void mutate_json(Json& value, Random& random, Words words) {
  std::vector<Json*> nodes;
  collect(value, nodes);
  Json& node = *random.pick(nodes);
  const Json other = random.one_in(2) ? *random.pick(nodes) : any_scalar(random, words);
  if (node.is_object() && !random.one_in(8)) {
    change_object(node, other, random, words);
  } else if (node.is_array() && !random.one_in(8)) {
    change_list(node, other, random);
  } else if (&node != &value && random.one_in(4)) {
    node = other;
  } else {
    change_scalar(node, random, words);
  }
}

std::string json_text(const Json& value, Random& random) {
  const auto text_of = [](const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  std::string text = text_of(value);
  if (!value.is_object() || value.empty() || !random.one_in(16)) return text;
  const auto& [key, again] = random.pick(value.get_ref<const Json::object_t&>());
  text.back() = ',';
  return text + text_of(key) + ":" + text_of(again) + "}";
}

}  // namespace lockstep::fuzz
