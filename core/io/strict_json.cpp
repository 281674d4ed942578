// SPDX-License-Identifier: Apache-2.0
#include "core/io/strict_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "core/base/check.h"
#include "core/base/parameter_names.h"

namespace lockstep::io {
namespace {

using nlohmann::json;

constexpr std::uint64_t kSpareBytes = std::uint64_t{32} << 20;
// At least what the parser keeps: a list or object with its place in another (which may just be
// growing), an entry of an object, and a value in a list.
constexpr std::uint64_t kContainerBytes = 64 + 48, kKeyBytes = 112, kValueBytes = 48;
constexpr std::uint64_t kStringBytes = 64;

/// Looks at JSON without keeping it. (The library's parser with a callback walks through all of a
/// list's elements at the end of each.)
class Checker final : public nlohmann::json_sax<json> {
 public:
  Checker(std::string where, int max_depth, std::uint64_t most_bytes)
      : where_(std::move(where)), max_depth_(max_depth), most_bytes_(most_bytes) {}

  bool null() override { return take(kValueBytes); }
  bool boolean(bool) override { return take(kValueBytes); }
  bool number_integer(number_integer_t) override { return take(kValueBytes); }
  bool number_unsigned(number_unsigned_t) override { return take(kValueBytes); }
  bool number_float(number_float_t, const string_t&) override { return take(kValueBytes); }
  bool string(string_t& text) override { return take(kValueBytes + kStringBytes + text.size()); }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    keys_.emplace_back();
    return enter();
  }
  bool key(string_t& name) override {
    take(kKeyBytes + name.size());
    LOCKSTEP_CHECK(keys_.back().insert(name).second,
                   DataError,
                   "{}: '{}' appears twice",
                   as_written(where_),
                   as_written(name));
    return true;
  }
  bool end_object() override {
    keys_.pop_back();
    return leave();
  }
  bool start_array(std::size_t) override { return enter(); }
  bool end_array() override { return leave(); }
  bool parse_error(std::size_t, const std::string&, const json::exception& error) override {
    throw DataError(
        fmt::format("{} is not valid JSON: {}", as_written(where_), as_written(error.what())),
        "the file is damaged or is not of this kind");
  }

 private:
  bool enter() {
    take(kContainerBytes);
    ++depth_;
    return true;
  }
  bool leave() {
    --depth_;
    return true;
  }
  bool take(std::uint64_t bytes) {
    LOCKSTEP_CHECK(depth_ <= max_depth_, DataError, "{} nests too deeply", as_written(where_));
    used_bytes_ += bytes;
    LOCKSTEP_CHECK(used_bytes_ <= most_bytes_,
                   DataError,
                   "{} holds too many values for a file of its size: they would take more than {} "
                   "bytes of memory",
                   as_written(where_),
                   most_bytes_);
    return true;
  }

  std::string where_;
  int max_depth_;
  std::uint64_t most_bytes_;
  int depth_ = 0;
  std::uint64_t used_bytes_ = 0;
  std::vector<std::set<std::string>> keys_;  // of the objects around
};

}  // namespace

json parse_strict_json(std::string_view text,
                       const std::string& where,
                       int max_depth,
                       std::uint64_t file_bytes) {
  {
    Checker checker(
        where, max_depth, std::max<std::uint64_t>(file_bytes, text.size()) + kSpareBytes);
    json::sax_parse(text, &checker);
  }
  return json::parse(text);
}

}  // namespace lockstep::io
