// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/base/random.h"
#include "core/base/text/printable.h"
#include "core/data/input_file.h"
#include "lockstep/data/preprocessing.h"
#include "lockstep/data/sources.h"
#include "lockstep/tokens/tokenizer.h"

namespace lockstep::data {
namespace {

using Parts = std::vector<std::shared_ptr<const Dataset>>;

/// Where `place` of [0, size) goes in a permutation of its own for each (key, pass): a Feistel
/// network of six rounds on the smallest square that holds them, walked until it is back inside.
/// No memory, and no draw of another place. Source: Black and Rogaway, "Ciphers with Arbitrary
/// Finite Domains", CT-RSA 2002.
std::uint64_t permuted(std::uint64_t place,
                       std::uint64_t size,
                       std::uint64_t key,
                       std::uint64_t pass) {
  constexpr int kRounds = 6;
  const int half = (std::bit_width(size - 1) + 1) / 2;
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  do {
    std::uint64_t left = place >> half, right = place & mask;
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      const std::uint64_t mixed = philox(key, right | round << 48, pass)[0] & mask;
      left = std::exchange(right, left ^ mixed);
    }
    place = left << half | right;
  } while (place >= size);
  return place;
}

/// What the parts have in common; where they do not.
class SourceParts : public Dataset {
 public:
  explicit SourceParts(Parts parts) : parts_(std::move(parts)) {}

  const SampleSpec& spec() const override { return parts_[0]->spec(); }
  void load(std::uint64_t epoch,
            std::int64_t index,
            std::byte* input,
            std::byte* target) const final {
    load_copy(epoch, index, 0, input, target);
  }
  void load_copy(std::uint64_t epoch,
                 std::int64_t index,
                 int copy,
                 std::byte* input,
                 std::byte* target) const final {
    const Place place = place_of(epoch, index);
    parts_[place.part]->load_copy(place.epoch, place.index, copy, input, target);
  }
  /// In the first epoch: in others the index may be another sample.
  std::int32_t label(std::int64_t index) const final {
    const Place place = place_of(0, index);
    return parts_[place.part]->label(place.index);
  }
  std::shared_ptr<const Dataset> resized(int size) const final {
    Parts parts;
    for (const auto& part : parts_) {
      parts.push_back(part->resized(size));
      if (parts.back() == nullptr) return nullptr;
    }
    auto result = duplicate();
    result->parts_ = std::move(parts);
    return result;
  }
  std::vector<std::string> class_names() const override {
    for (const auto& part : parts_)
      if (auto names = part->class_names(); !names.empty()) return names;
    return {};
  }
  Preprocessing preprocessing() const override {
    Preprocessing record = parts_[0]->preprocessing();
    record.class_names = class_names();
    return record;
  }
  SkippedRecords skipped_records() const override {
    SkippedRecords all;
    for (const auto& part : parts_) {
      const SkippedRecords skipped = part->skipped_records();
      all.count += skipped.count;
      for (const std::string& what : skipped.first)
        if (all.first.size() < SkippedRecords::kMaxNamed) all.first.push_back(what);
    }
    return all;
  }
  std::uint64_t decoding_bytes(int threads) const override {
    std::uint64_t most = 0;  // all threads may be at the same source
    for (const auto& part : parts_) most = std::max(most, part->decoding_bytes(threads));
    return most;
  }
  std::uint64_t fingerprint() const override {
    std::uint64_t hash = 0;
    for (const auto& part : parts_) {
      const std::uint64_t own = part->fingerprint();
      hash = content_hash(&own, sizeof own, hash);
    }
    return hash;
  }
  ContentSample content_sample(std::uint64_t seed) const override {
    ContentSample all;
    for (const auto& part : parts_) {
      const ContentSample own = part->content_sample(seed);
      if (own.empty()) continue;
      all.hash = content_hash(&own.hash, sizeof own.hash, all.hash);
      all.written = std::max(all.written, own.written);
    }
    return all;
  }

 protected:
  /// A sample of a part.
  struct Place {
    std::size_t part = 0;
    std::uint64_t epoch = 0;  // the part's
    std::int64_t index = 0;
  };
  /// Where sample `index` of `epoch` comes from.
  virtual Place place_of(std::uint64_t epoch, std::int64_t index) const = 0;
  virtual std::shared_ptr<SourceParts> duplicate() const = 0;

  Parts parts_;
};

/// All samples of the parts, one part after the other.
class JoinedSources final : public SourceParts {
 public:
  explicit JoinedSources(Parts parts) : SourceParts(std::move(parts)) {
    for (const auto& part : parts_) ends_.push_back(size() + part->size());
  }

  std::int64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  std::string describe() const override {
    std::string text;
    for (const auto& part : parts_) text += (text.empty() ? "" : " and ") + part->describe();
    return text;
  }

 private:
  Place place_of(std::uint64_t epoch, std::int64_t index) const override {
    const auto part = std::size_t(std::ranges::upper_bound(ends_, index) - ends_.begin());
    return {part, epoch, index - (part == 0 ? 0 : ends_[part - 1])};
  }
  std::shared_ptr<SourceParts> duplicate() const override {
    return std::make_shared<JoinedSources>(*this);
  }

  std::vector<std::int64_t> ends_;
};

/// Shares of `samples` by weight, rounded down, and up for the largest remainders until they add
/// up.
std::vector<std::int64_t> shares_of(std::int64_t samples, const std::vector<double>& weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<std::int64_t> shares;
  std::vector<std::pair<double, std::size_t>> remainders;
  std::int64_t left = samples;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double share = double(samples) * (weights[i] / sum);
    shares.push_back(std::min(left, std::int64_t(share)));
    left -= shares.back();
    remainders.emplace_back(double(shares.back()) - share, i);  // the largest first
  }
  std::ranges::sort(remainders);
  for (std::size_t i = 0; left > 0; ++i, --left) ++shares[remainders[i % shares.size()].second];
  return shares;
}

/// Training parts: indices [0, shares[0]) are the first's, and so on.
class WeightedSources final : public SourceParts {
 public:
  WeightedSources(Parts parts, std::vector<double> weights, std::uint64_t seed)
      : SourceParts(std::move(parts)), weights_(std::move(weights)) {
    std::int64_t samples = 0;
    for (const auto& part : parts_) samples += part->size();
    shares_ = shares_of(samples, weights_);
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      LOCKSTEP_CHECK(shares_[i] > 0,
                     ConfigError,
                     "`data_weights`: {} gives {} no sample among the {} of an epoch",
                     weights_[i],
                     parts_[i]->describe(),
                     samples);
      ends_.push_back(size() + shares_[i]);
      keys_.push_back(random_key(seed, fmt::format("mixed source {}", i)));
    }
  }

  std::int64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  std::string describe() const override {
    std::string text = fmt::format("{} samples an epoch", size());
    for (std::size_t i = 0; i < parts_.size(); ++i)
      text += fmt::format("{} {} ({:.3g}%) of {}",
                          i == 0 ? ":" : ";",
                          shares_[i],
                          percent(i),
                          parts_[i]->describe());
    return text;
  }
  std::uint64_t fingerprint() const override {
    const std::uint64_t hash = content_hash(
        shares_.data(), shares_.size() * sizeof(std::int64_t), SourceParts::fingerprint());
    return content_hash(keys_.data(), keys_.size() * sizeof(std::uint64_t), hash);
  }

 private:
  /// A part takes the pass over it for its epoch.
  Place place_of(std::uint64_t epoch, std::int64_t index) const override {
    const auto part = std::size_t(std::ranges::upper_bound(ends_, index) - ends_.begin());
    const std::int64_t begin = part == 0 ? 0 : ends_[part - 1];
    const auto size = std::uint64_t(parts_[part]->size());
    const std::uint64_t count = epoch * std::uint64_t(shares_[part]) + std::uint64_t(index - begin);
    const std::uint64_t pass = count / size;
    return {part, pass, std::int64_t(permuted(count % size, size, keys_[part], pass))};
  }
  std::shared_ptr<SourceParts> duplicate() const override {
    return std::make_shared<WeightedSources>(*this);
  }
  double percent(std::size_t part) const { return 100.0 * double(shares_[part]) / double(size()); }

  std::vector<double> weights_;
  std::vector<std::int64_t> shares_;  // samples of an epoch
  std::vector<std::int64_t> ends_;
  std::vector<std::uint64_t> keys_;
};

std::string names_text(const std::vector<std::string>& names) {
  constexpr std::size_t kMaxListed = 3, kMaxWidth = 40;
  if (names.empty()) return "none";
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMaxListed); ++i)
    text += fmt::format("{}'{}'", i == 0 ? "" : ", ", printable(names[i], kMaxWidth));
  return as_written(names.size() > kMaxListed ? text + ", ..." : text);
}

std::string fingerprint_of_tokenizer(const Preprocessing& record) {
  return record.tokenizer ? record.tokenizer->fingerprint() : std::string();
}

/// Whether names decide which number a class has; not so where a file has the numbers themselves,
/// or where the names are these numbers.
bool numbers_by_name(const Dataset& part) {
  const std::string source = part.preprocessing().source;
  if (source != "images" && source != "packed" && source != "webdataset" && source != "csv")
    return false;
  const std::vector<std::string> names = part.class_names();
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] != std::to_string(i)) return true;
  return false;
}

/// Of one part without names and another with them a class may be another one in each.
void check_class_names(const Parts& parts) {
  const auto named =
      std::ranges::find_if(parts, [](const auto& p) { return !p->class_names().empty(); });
  if (named == parts.end()) return;
  const std::vector<std::string> names = (*named)->class_names();
  const bool by_name =
      std::ranges::any_of(parts, [](const auto& p) { return numbers_by_name(*p); });
  for (const auto& part : parts) {
    const std::vector<std::string> others = part->class_names();
    if (others == names || (others.empty() && !by_name)) continue;
    throw ConfigError(fmt::format("data: sources that are mixed need the same names of classes, "
                                  "but {} has {} and {} has {}",
                                  as_written((*named)->describe()),
                                  names_text(names),
                                  as_written(part->describe()),
                                  names_text(others)),
                      "name or number the classes of all sources alike");
  }
}

void check_same(const Dataset& first, const Dataset& other) {
  const SampleSpec &a = first.spec(), &b = other.spec();
  const auto expect = [&](bool same, const std::string& what) {
    LOCKSTEP_CHECK(same,
                   ConfigError,
                   "data: sources that are mixed need the same {}, but {} and {} differ in it",
                   what,
                   first.describe(),
                   other.describe());
  };
  expect(a.input == b.input, "samples");
  expect(a.target == b.target && a.multi_label == b.multi_label, "targets");
  expect(a.classes == b.classes, a.input.dtype == DType::i32 ? "vocabulary" : "number of classes");
  expect(a.scale == b.scale && a.shift == b.shift, "normalisation");
  expect(a.embedded == b.embedded && a.ignore_index == b.ignore_index, "columns and ignored label");
  const Preprocessing record = first.preprocessing(), other_record = other.preprocessing();
  expect(fingerprint_of_tokenizer(record) == fingerprint_of_tokenizer(other_record),
         "tokenizer (`tokenizer` names that of all)");
  expect(record.table.has_value() == other_record.table.has_value() &&
             (!record.table || *record.table == *other_record.table),
         "columns, means and deviations");
}

}  // namespace

DataSplit mixed_sources(const std::vector<DataSplit>& sources,
                        const std::vector<double>& weights,
                        std::uint64_t seed) {
  LOCKSTEP_CHECK(sources.size() >= 2 && sources.size() == weights.size(),
                 ConfigError,
                 "`data_weights`: expected a weight for each of {} sources, got {}",
                 sources.size(),
                 weights.size());
  for (const double weight : weights)
    LOCKSTEP_CHECK(weight > 0 && std::isfinite(weight),
                   ConfigError,
                   "`data_weights`: expected numbers above 0, got {}",
                   weight);
  Parts train, validation;
  for (const DataSplit& source : sources) {
    if (source.train) train.push_back(source.train);
    if (source.validation) validation.push_back(source.validation);
  }
  LOCKSTEP_CHECK(train.empty() || train.size() == sources.size(),
                 ConfigError,
                 "data: one of the sources that are mixed has no training part");
  for (const auto& part : train) check_same(*train[0], *part);
  for (const auto& part : validation) check_same(train.empty() ? *validation[0] : *train[0], *part);
  check_class_names(train);
  check_class_names(validation);
  DataSplit split;
  if (!train.empty())
    split.train = std::make_shared<WeightedSources>(std::move(train), weights, seed);
  if (!validation.empty())
    split.validation = std::make_shared<JoinedSources>(std::move(validation));
  return split;
}

}  // namespace lockstep::data
