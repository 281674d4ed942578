// SPDX-License-Identifier: Apache-2.0
#include "core/io/load_weights.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <fmt/ranges.h>
#include <map>
#include <regex>
#include <set>
#include <span>

#include "core/base/check.h"
#include "core/base/half.h"
#include "core/base/parameter_names.h"
#include "core/base/text/printable.h"
#include "core/io/open_weights.h"

namespace lockstep::io {
namespace {

float from_bf16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t(bits) << 16); }

template <typename T, typename Convert>
std::vector<float> read_as(const WeightSource& file, std::size_t index, Convert convert) {
  std::vector<T> raw(std::size_t(file.entries()[index].bytes / sizeof(T)));
  file.read(index, std::as_writable_bytes(std::span<T>(raw)));
  std::vector<float> values(raw.size());
  std::ranges::transform(raw, values.begin(), convert);
  return values;
}

bool is_real(ElementType type) {
  return type == ElementType::f32 || type == ElementType::f64 || type == ElementType::f16 ||
         type == ElementType::bf16;
}

std::vector<float> read_values(const WeightSource& file, std::size_t index) {
  const WeightEntry& entry = file.entries()[index];
  switch (entry.type) {
    case ElementType::f32:
      return read_as<float>(file, index, [](float v) { return v; });
    case ElementType::f64:
      return read_as<double>(file, index, [](double v) { return float(v); });
    case ElementType::f16:
      return read_as<std::uint16_t>(file, index, from_f16);
    case ElementType::bf16:
      return read_as<std::uint16_t>(file, index, from_bf16);
    default:
      throw InternalError("no real numbers in " + entry.name);
  }
}

constexpr std::string_view kGptPrefix = "transformer.";
/// Of DataParallel and DistributedDataParallel, and of torch.compile().
constexpr std::string_view kWrapperPrefixes[] = {"module.", "_orig_mod."};
constexpr std::string_view kBatchCount = "num_batches_tracked";
/// Of gpt and of llama, whose head is one of these tables where it is tied.
constexpr const char* kTokenTables[] = {"transformer.wte.weight", "model.embed_tokens.weight"};
constexpr const char* kHead = "lm_head.weight";

/// What older versions of Hugging Face's models keep among the weights: GPT-2's causal masks,
/// Llama's frequencies.
bool is_buffer(const std::string& name) {
  static const std::regex kBuffer(R"((transformer\.)?h\.\d+\.attn\.(masked_)?bias|)"
                                  R"(model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq)");
  return std::regex_match(name, kBuffer);
}

/// The prefixes that no name of the model has.
std::vector<std::string_view> foreign_prefixes(const std::set<std::string>& model) {
  std::vector<std::string_view> foreign;
  for (const std::string_view prefix : kWrapperPrefixes)
    if (std::ranges::none_of(model, [&](const std::string& n) { return n.starts_with(prefix); }))
      foreign.push_back(prefix);
  return foreign;
}

std::string without(std::string_view name, const std::vector<std::string_view>& prefixes) {
  const auto leads = [&](std::string_view prefix) { return name.starts_with(prefix); };
  for (;;) {
    const auto found = std::ranges::find_if(prefixes, leads);
    if (found == prefixes.end()) return std::string(name);
    name.remove_prefix(found->size());
  }
}

/// The tensors of a file by the names that the model has for them.
class FileTensors {
 public:
  FileTensors(const WeightSource& file, const std::vector<const Parameter*>& wanted) : file_(file) {
    for (const Parameter* parameter : wanted) known_.insert(parameter->name);
    const std::vector<std::string_view> foreign = foreign_prefixes(known_);
    std::vector<std::string> names;
    for (const WeightEntry& entry : file.entries()) names.push_back(without(entry.name, foreign));
    const auto prefixed = [](const std::string& name) { return name.starts_with(kGptPrefix); };
    const bool gpt = std::ranges::any_of(known_, prefixed);
    const bool bare = gpt && std::ranges::none_of(names, prefixed);
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::string longer = std::string(kGptPrefix) + names[i];
      const std::string& name = bare && known_.contains(longer) ? longer : names[i];
      if (!known_.contains(name) && token_table() != nullptr && is_buffer(name))
        masks_.push_back(name);
      else
        add(name, i);
    }
  }

  const WeightSource& file() const { return file_; }
  bool in_model(const std::string& name) const { return known_.contains(name); }
  /// The name of the model's; null: it has none.
  const char* token_table() const {
    const auto* const found =
        std::ranges::find_if(kTokenTables, [&](const char* name) { return known_.contains(name); });
    return found == std::end(kTokenTables) ? nullptr : *found;
  }
  /// Places in file().entries().
  const std::map<std::string, std::size_t>& by_name() const { return by_name_; }
  /// Of the file, and not among by_name().
  const std::vector<std::string>& masks() const { return masks_; }
  /// Null where the file has none.
  const WeightEntry* find(const std::string& name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : &file_.entries()[found->second];
  }
  std::vector<float> values(const std::string& name) const {
    return read_values(file_, by_name_.at(name));
  }

 private:
  void add(const std::string& name, std::size_t index) {
    const auto [at, is_new] = by_name_.emplace(name, index);
    LOCKSTEP_CHECK(is_new,
                   DataError,
                   "{}: {} and {} are both {} without their prefixes",
                   as_written(file_.name()),
                   as_written(printable(file_.entries()[at->second].name)),
                   as_written(printable(file_.entries()[index].name)),
                   as_written(printable(name)));
  }

  const WeightSource& file_;
  std::set<std::string> known_;
  std::map<std::string, std::size_t> by_name_;
  std::vector<std::string> masks_;
};

std::string shape_text(std::span<const std::int64_t> dims) {
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

/// What is wrong with the file's tensor for `parameter`; empty where it fits.
std::string mismatch(const WeightEntry* entry, const Parameter& parameter) {
  const auto expected = parameter.file_layout.file.dims();
  if (entry == nullptr)
    return fmt::format("{}: expected {}, got nothing", parameter.name, shape_text(expected));
  if (!std::ranges::equal(entry->shape, expected))
    return fmt::format(
        "{}: expected {}, got {}", parameter.name, shape_text(expected), shape_text(entry->shape));
  if (!is_real(entry->type))
    return fmt::format(
        "{}: expected F32, F64, F16 or BF16, got {}", parameter.name, name_of(entry->type));
  return {};
}

/// What is wrong with a tensor of the file that the model has not; empty where it may be ignored.
std::string surplus(const FileTensors& tensors, const std::string& name) {
  if (name.ends_with(kBatchCount)) return {};
  const WeightEntry& entry = *tensors.find(name);
  const std::string shape = shape_text(entry.shape);
  const char* const table_name = tensors.token_table();
  const WeightEntry* table = table_name == nullptr ? nullptr : tensors.find(table_name);
  if (name != kHead || table == nullptr)
    return fmt::format("{}: not in the model, got {}", as_written(printable(name)), shape);
  if (entry.shape == table->shape && is_real(entry.type) && is_real(table->type) &&
      tensors.values(name) == tensors.values(table_name))
    return {};
  return fmt::format(
      "{}: expected the values of {}, which is this model's head too, got {} of its own; "
      "`tied_head` off makes a head of its own",
      as_written(name),
      table_name,
      shape);
}

/// How this model gets a new head: "--init-skip '^fc\.' gives this model a new head".
std::string new_head(const FileTensors& tensors, const std::vector<const Parameter*>& wanted) {
  std::string head = wanted.empty() ? "" : wanted.back()->name;
  if (const char* const table = tensors.token_table())
    head = tensors.in_model(kHead) ? kHead : table;
  head.resize(head.rfind('.') == std::string::npos ? head.size() : head.rfind('.') + 1);
  std::string pattern;
  for (const char letter : head) pattern += letter == '.' ? "\\." : std::string(1, letter);
  return fmt::format("`init_skip` '^{}' gives this model a new head", pattern);
}

void expect_fit(const FileTensors& tensors,
                const std::vector<const Parameter*>& wanted,
                const NamePatterns& skip) {
  std::vector<std::string> problems;
  const auto add = [&](std::string problem) {
    if (!problem.empty()) problems.push_back(std::move(problem));
  };
  for (const Parameter* parameter : wanted)
    if (!skip.match(parameter->name)) add(mismatch(tensors.find(parameter->name), *parameter));
  for (const auto& [name, index] : tensors.by_name())
    if (!tensors.in_model(name) && !skip.match(name)) add(surplus(tensors, name));
  if (problems.empty()) return;
  throw DataError(fmt::format("{}: {} tensor{} not fit the model:\n  {}",
                              as_written(tensors.file().name()),
                              problems.size(),
                              problems.size() == 1 ? " does" : "s do",
                              fmt::join(problems, "\n  ")),
                  "`init_skip` REGEX leaves tensors out: " + new_head(tensors, wanted));
}

LoadReport report_of(const FileTensors& tensors,
                     const std::vector<const Parameter*>& wanted,
                     const NamePatterns& skip) {
  const WeightSource& file = tensors.file();
  LoadReport report;
  report.source = file.name();
  if (!file.under().empty()) report.source += fmt::format(" (under '{}')", file.under());
  for (const Parameter* parameter : wanted)
    ++(skip.match(parameter->name) ? report.fresh : report.loaded);
  for (const auto& [name, index] : tensors.by_name())
    if (!tensors.in_model(name) || skip.match(name)) report.skipped.push_back(printable(name));
  for (const auto& more : {tensors.masks(), file.others()})
    for (const std::string& name : more) report.skipped.push_back(printable(name));
  return report;
}

}  // namespace

std::string LoadReport::to_string() const {
  constexpr std::size_t kShown = 5;
  std::vector<std::string> shown;
  std::size_t counts = 0;
  for (const std::string& name : skipped) {
    if (name.ends_with(kBatchCount))
      ++counts;
    else
      shown.push_back(name);
  }
  const std::size_t hidden = shown.size() > kShown ? shown.size() - kShown : 0;
  shown.resize(shown.size() - hidden);
  if (hidden > 0) shown.push_back(fmt::format("and {} more", hidden));
  if (counts > 0) shown.push_back(fmt::format("{} {}", counts, kBatchCount));
  std::string text = fmt::format("{}: {} tensors loaded", source, loaded);
  if (!skipped.empty())
    text += fmt::format(", {} skipped ({})", skipped.size(), fmt::join(shown, ", "));
  if (fresh > 0) text += fmt::format(", {} new", fresh);
  return text;
}

std::vector<NamedTensor> load_weights(const std::string& file,
                                      const std::vector<Parameter>& parameters,
                                      const NamePatterns& skip,
                                      LoadReport* report) {
  const std::unique_ptr<WeightSource> source = open_weights(file);
  std::vector<const Parameter*> wanted;
  std::vector<std::string> names;
  for (const Parameter& parameter : parameters)
    if (parameter.kind != ParameterKind::metric) {
      wanted.push_back(&parameter);
      names.push_back(parameter.name);
    }
  const FileTensors tensors(*source, wanted);
  for (const auto& [name, index] : tensors.by_name()) names.push_back(name);
  skip.expect_matches(names);
  expect_fit(tensors, wanted, skip);
  if (report != nullptr) *report = report_of(tensors, wanted, skip);
  std::vector<NamedTensor> result;
  for (const Parameter* parameter : wanted)
    if (!skip.match(parameter->name))
      result.push_back({*parameter, from_file_layout(*parameter, tensors.values(parameter->name))});
  return result;
}

}  // namespace lockstep::io
