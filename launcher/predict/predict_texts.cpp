// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "core/base/check.h"
#include "core/base/text/utf8.h"
#include "core/data/ignore_label.h"
#include "core/data/text/token_windows.h"
#include "core/exec/batch_predictor.h"
#include "launcher/output/standard_output.h"
#include "launcher/predict/predict_inputs.h"
#include "launcher/predict/token_text.h"
#include "lockstep/tokens/tokenizer.h"

namespace lockstep {
namespace {

/// Logits of a batch of windows, at most: 64 MiB.
constexpr std::int64_t kMaxLogits = std::int64_t{1} << 24;

/// -log(softmax(logits)[token])
double token_loss(std::span<const float> logits, std::int32_t token) {
  const double most = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double(logit) - most);
  return std::log(sum) + most - double(logits[std::size_t(token)]);
}

/// Whether all of `text` is digits and what stands between numbers.
bool is_written_out(std::string_view text) {
  return text.find_first_not_of("0123456789 ,\t\r\n") == std::string_view::npos;
}

class TextPredictor {
 public:
  explicit TextPredictor(const PredictionJob& job)
      : job_(job),
        vocabulary_(job.run.trained.samples.classes),
        context_(job.run.flags.context > 0 ? job.run.flags.context : job.run.flags.model.context),
        batch_(
            std::clamp<std::int64_t>(kMaxLogits / (context_ * vocabulary_), 1, kPredictedAtOnce)),
        spec_(window_spec()),
        predictor_(job.backend,
                   model_of(job.run, spec_),
                   spec_,
                   batch_,
                   job.run.flags.options.precision,
                   job.run.weights),
        input_(std::size_t(batch_ * context_)),
        target_(input_.size()) {
    warn_of_slow_operators(job.backend);
  }

  void predict(const NamedFile& file) {
    if (!file.problem.empty())
      throw DataError(fmt::format("{}: {}", file.path, file.problem), "check the name");
    const data::TokenSequence sequence = read(file.path);
    if (sequence.count == 0)
      throw DataError(fmt::format("{}: there are no tokens in it", sequence.description));
    TextPrediction text;
    text.tokens = sequence.count;
    if (text.tokens > 1) text.loss = mean_loss(sequence);
    text.next = next_logits(sequence);
    job_.writer.write({file.path, 0, {}}, text);
    job_.inputs.add_good(1);
    flush_output();
  }

 private:
  data::SampleSpec window_spec() const {
    data::SampleSpec spec;
    spec.input = spec.target = {{context_}, DType::i32};
    spec.classes = int(vocabulary_);
    return spec;
  }

  data::TokenSequence read(const std::string& path) const {
    const std::string name = path == "-" ? "standard input" : path;
    const std::string text = read_named(path);
    if (is_token_file(path, text)) {
      LOCKSTEP_CHECK(path != "-",
                     DataError,
                     "standard input: expected {}; binary tokens come from files",
                     job_.run.trained.tokenizer
                         ? "a text in UTF-8"
                         : "token indices, written out with spaces between them");
      return data::read_token_file(path, vocabulary_, job_.run.trained.tokenizer);
    }
    const EncodedText encoded = encode_text(text, job_.run.trained);
    LOCKSTEP_CHECK(encoded.problem.empty(), DataError, "{}: {}", name, encoded.problem);
    return data::whole_sequence(data::tokens_in_memory(encoded.tokens), name, vocabulary_);
  }

  /// Of a run whose tokens are not characters, what is not written out as its tokens are. Where the
  /// run has a tokenizer, only a .bin or .npy: the other files are texts, perhaps in another
  /// encoding.
  bool is_token_file(const std::string& path, std::string_view text) const {
    const data::Preprocessing& trained = job_.run.trained;
    if (!trained.class_names.empty()) return false;
    const bool may_be = path.ends_with(".bin") || path.ends_with(".npy");
    return trained.tokenizer ? may_be && !is_utf8(text) : !is_written_out(text);
  }

  /// Over the same windows as lockstep evaluate.
  double mean_loss(const data::TokenSequence& sequence) {
    const auto windows = data::windows_in_order(sequence, context_, job_.run.flags.ignore_index);
    double sum = 0;
    std::int64_t counted = 0;
    for (std::int64_t first = 0; first < windows->size(); first += batch_) {
      const std::int64_t count = std::min(batch_, windows->size() - first);
      for (std::int64_t i = 0; i < count; ++i)
        windows->load(0,
                      first + i,
                      reinterpret_cast<std::byte*>(input_.data() + i * context_),
                      reinterpret_cast<std::byte*>(target_.data() + i * context_));
      const std::vector<float>& logits = predictor_.run(input_.data());
      for (std::int64_t i = 0; i < count * context_; ++i) {
        const std::int32_t target = target_[std::size_t(i)];
        if (target == data::kIgnoreIndex) continue;
        sum += token_loss(row(logits, i), target);
        ++counted;
      }
    }
    return sum / double(counted);
  }

  std::vector<float> next_logits(const data::TokenSequence& sequence) {
    const std::int64_t seen = std::min(context_, sequence.count);
    std::vector<std::int32_t> last(static_cast<std::size_t>(seen));
    sequence.store->read(sequence.first + sequence.count - seen, last);
    // What comes after the last token is not looked at: attention is causal.
    std::ranges::fill(input_, 0);
    for (std::int64_t i = 0; i < seen; ++i) {
      LOCKSTEP_CHECK(last[std::size_t(i)] >= 0 && last[std::size_t(i)] < vocabulary_,
                     DataError,
                     "token {} is past the vocabulary of {}",
                     last[std::size_t(i)],
                     vocabulary_);
      input_[std::size_t(i)] = last[std::size_t(i)];
    }
    const std::span<const float> next = row(predictor_.run(input_.data()), seen - 1);
    return {next.begin(), next.end()};
  }

  std::span<const float> row(const std::vector<float>& logits, std::int64_t index) const {
    return std::span(logits).subspan(std::size_t(index * vocabulary_), std::size_t(vocabulary_));
  }

  const PredictionJob& job_;
  std::int64_t vocabulary_, context_, batch_;
  data::SampleSpec spec_;
  BatchPredictor predictor_;
  std::vector<std::int32_t> input_, target_;
};

}  // namespace

void predict_texts(const PredictionJob& job) {
  TextPredictor predictor(job);
  for (const NamedFile& file : job.files) job.inputs.attempt([&] { predictor.predict(file); });
}

}  // namespace lockstep
