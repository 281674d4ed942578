// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/metrics_reader.h"

#include <algorithm>
#include <bitset>
#include <cctype>
#include <cerrno>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "core/base/file_kind.h"
#include "core/data/input_file.h"
#include "lockstep/error.h"

namespace lockstep::report {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, kQuantities> kNames{"epoch",
                                                           "samples",
                                                           "loss",
                                                           "accuracy",
                                                           "lr",
                                                           "grad_norm",
                                                           "samples_per_s",
                                                           "step_ms",
                                                           "data_ms",
                                                           "copy_ms",
                                                           "forward_ms",
                                                           "backward_ms",
                                                           "comm_exposed_ms",
                                                           "optimizer_ms",
                                                           "device_wait_ms",
                                                           "logging_ms",
                                                           "checkpoint_ms",
                                                           "other_ms",
                                                           "loader_samples_per_s",
                                                           "gpu_busy",
                                                           "gpu_memory_bytes",
                                                           "gpu_bus_busy",
                                                           "gpu_power_w",
                                                           "gpu_clock_mhz",
                                                           "noise_scale",
                                                           "val_loss",
                                                           "val_accuracy",
                                                           "ema_val_loss",
                                                           "ema_val_accuracy",
                                                           "seconds",
                                                           "stall_ms",
                                                           "spike_step",
                                                           "mean",
                                                           "spread",
                                                           "first_left_out",
                                                           "last_left_out",
                                                           "lost_steps"};

constexpr std::size_t kLongest = std::size_t{1} << 16;  // far beyond any line that a run writes
constexpr double kMaxSteps = 1e15;                      // doubles count exactly up to there

/// Takes a flat object apart without building it: files have a hundred thousand of them.
class LineParser final : public nlohmann::json_sax<json> {
 public:
  explicit LineParser(MetricsLine& line) : line_(line) {}

  void begin() {
    line_.values.fill(std::numeric_limits<double>::quiet_NaN());
    for (std::string* text : {&line_.path, &line_.error, &line_.cause}) text->clear();
    seen_.reset();
    step_.reset();
    format_ = 0;
    depth_ = 0;
    is_object_ = has_skip_ = has_checkpoint_ = has_rollback_ = has_fault_ = false;
    key_.clear();
  }
  bool is_object() const { return is_object_; }
  std::int64_t format() const { return format_; }
  const std::optional<std::int64_t>& step() const { return step_; }
  LineKind kind() const {
    if (has_rollback_) return LineKind::rollback;
    if (has_fault_) return LineKind::fault;
    if (has_skip_) return LineKind::skip;
    if (has_checkpoint_) return LineKind::checkpoint;
    if (seen_[std::size_t(Quantity::val_loss)]) return LineKind::evaluation;
    return seen_[std::size_t(Quantity::loss)] ? LineKind::step : LineKind::other;
  }

  bool null() override { return number(std::numeric_limits<double>::quiet_NaN()); }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t value) override { return whole(value); }
  bool number_unsigned(number_unsigned_t value) override {
    const bool fits = value <= number_unsigned_t(std::numeric_limits<std::int64_t>::max());
    return fits ? whole(std::int64_t(value)) : number(double(value));
  }
  bool number_float(number_float_t value, const string_t&) override { return number(value); }
  bool string(string_t& text) override {
    if (depth_ != 1) return true;
    if (std::string* place = text_of_key()) {
      *place = text;
      return true;
    }
    return null();
  }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    is_object_ = is_object_ || depth_ == 0;
    ++depth_;
    return true;
  }
  bool end_object() override { return --depth_ >= 0; }
  bool start_array(std::size_t) override { return ++depth_ > 0; }
  bool end_array() override { return --depth_ >= 0; }
  bool key(string_t& name) override {
    if (depth_ == 1) key_.swap(name);
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const json::exception&) override {
    return false;
  }

 private:
  std::string* text_of_key() {
    has_checkpoint_ = has_checkpoint_ || key_ == "checkpoint";
    has_rollback_ = has_rollback_ || key_ == "rollback";
    has_skip_ = has_skip_ || key_ == "skipped_step";
    has_fault_ = has_fault_ || key_ == "fault";
    if (key_ == "checkpoint" || key_ == "rollback") return &line_.path;
    if (key_ == "skipped_step" || key_ == "fault") return &line_.cause;
    return key_ == "error" ? &line_.error : nullptr;
  }
  bool whole(std::int64_t value) {
    if (depth_ == 1 && key_ == "step") step_ = value;
    if (depth_ == 1 && key_ == "format") format_ = value;
    return number(double(value));
  }
  bool number(double value) {
    if (depth_ != 1) return true;
    // They come in the order of the list, but for some that are skipped.
    const auto from = kNames.begin() + std::ptrdiff_t(next_);
    auto found = std::find(from, kNames.end(), key_);
    if (found == kNames.end()) found = std::find(kNames.begin(), from, key_);
    if (found == kNames.end() || *found != key_) return true;
    const auto place = std::size_t(found - kNames.begin());
    next_ = place + 1;
    seen_.set(place);
    line_.values[place] = value;
    return true;
  }

  MetricsLine& line_;
  std::string key_;
  std::size_t next_ = 0;
  std::bitset<kQuantities> seen_;
  std::optional<std::int64_t> step_;
  std::int64_t format_ = 0;
  int depth_ = 0;
  bool is_object_ = false, has_skip_ = false, has_checkpoint_ = false, has_rollback_ = false,
       has_fault_ = false;
};

/// `line` with null in the place of words that some writers of JSON use for what it lacks.
std::string without_nan(std::string_view line) {
  std::string result;
  bool in_string = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"') in_string = !in_string;
    if (in_string && c == '\\' && i + 1 < line.size()) result += line[i++];
    const std::string_view rest = line.substr(i);
    std::size_t length = 0;
    if (!in_string)
      for (const std::string_view word :
           {"-Infinity", "Infinity", "-inf", "inf", "-nan", "nan", "NaN"})
        if (length == 0 && rest.starts_with(word)) length = word.size();
    if (length > 0) {
      result += "null";
      i += length - 1;
    } else {
      result += line[i];
    }
  }
  return result;
}

/// The lines of a file, in memory for one block.
class Lines {
 public:
  explicit Lines(const std::string& file) : file_(file), input_(file, std::ios::binary) {
    if (!input_) cannot_read();
  }
  /// False at the end. Valid until the next call. `whole`: it ends with a newline. Of a line that
  /// is far too long, a part.
  bool next(std::string_view& line, bool& whole) {
    for (;;) {
      const std::string_view rest(block_.data() + begin_, end_ - begin_);
      const std::size_t newline = rest.find('\n');
      const bool too_long = newline == std::string_view::npos && rest.size() > kLongest;
      if (newline != std::string_view::npos || too_long || (at_end_ && !rest.empty())) {
        whole = newline != std::string_view::npos;
        line = rest.substr(0, newline);
        begin_ += line.size() + (whole ? 1 : 0);
        return true;
      }
      if (at_end_) return false;
      refill();
    }
  }
  bool is_last() {
    if (begin_ < end_) return false;
    refill();
    return at_end_ && begin_ == end_;
  }

 private:
  [[noreturn]] void cannot_read() const {
    throw DataError(fmt::format("{}: cannot be read", file_), read_hint(EIO));
  }
  void refill() {
    std::copy(block_.begin() + std::ptrdiff_t(begin_),
              block_.begin() + std::ptrdiff_t(end_),
              block_.begin());
    end_ -= begin_;
    begin_ = 0;
    if (end_ == block_.size()) block_.resize(2 * block_.size());
    input_.read(block_.data() + end_, std::streamsize(block_.size() - end_));
    end_ += std::size_t(input_.gcount());
    if (input_.bad()) cannot_read();
    at_end_ = input_.eof();
  }

  std::string file_;
  std::ifstream input_;
  std::vector<char> block_ = std::vector<char>(std::size_t{1} << 18);
  std::size_t begin_ = 0, end_ = 0;
  bool at_end_ = false;
};

bool is_blank(std::string_view line) {
  return line.find_first_not_of(std::string_view(" \t\r\0", 4)) == std::string_view::npos;
}

constexpr const char* kMixed =
    "is another file mixed in, or is it damaged? a report needs metrics.jsonl as one run wrote it";

}  // namespace

std::string_view name_of(Quantity quantity) { return kNames[std::size_t(quantity)]; }

MetricsEnd read_metrics(const std::string& file,
                        const std::function<void(const MetricsLine&)>& take) {
  data::input_file_size(file, "");  // refuses what would wait or never end
  Lines lines(file);
  MetricsEnd end;
  MetricsLine line;
  LineParser parser(line);
  std::string_view text;
  for (bool whole = true; lines.next(text, whole);) {
    const auto where = [&, number = ++line.number] {
      return fmt::format("{} line {}", file, number);
    };
    if (is_blank(text)) continue;  // a disk that lost its power leaves zeros after the end
    if (text.size() > kLongest)
      throw DataError(fmt::format("{} is longer than {} bytes", where(), kLongest), kMixed);
    parser.begin();
    bool parsed = json::sax_parse(text, &parser);
    if (!parsed) {
      const std::string repaired = without_nan(text);
      parser.begin();
      parsed = repaired != text && json::sax_parse(repaired, &parser);
    }
    if (!parsed && (!whole || lines.is_last())) {
      end.cut_off = true;
      continue;
    }
    if (!parsed || !parser.is_object())
      throw DataError(fmt::format("{} is not a JSON object", where()), kMixed);
    if (parser.format() > kFormat)
      throw DataError(
          fmt::format("{} has format {}, this version reads {}", where(), parser.format(), kFormat),
          "take a newer lockstep");
    if (!parser.step() || *parser.step() < 0 || double(*parser.step()) > kMaxSteps)
      throw DataError(fmt::format("{} has no step", where()), kMixed);
    line.step = *parser.step();
    line.kind = parser.kind();
    ++end.lines;
    end.unknown_lines += line.kind == LineKind::other ? 1 : 0;
    take(line);
  }
  return end;
}

}  // namespace lockstep::report
