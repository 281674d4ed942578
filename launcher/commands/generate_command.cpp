// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <numeric>
#include <span>

#include "core/base/check.h"
#include "core/base/random.h"
#include "core/exec/batch_predictor.h"
#include "core/exec/token_decoder.h"
#include "launcher/commands/commands.h"
#include "launcher/output/standard_output.h"
#include "launcher/predict/saved_run.h"
#include "launcher/predict/token_text.h"
#include "launcher/settings/flag_values.h"
#include "lockstep/job.h"
#include "lockstep/tokens/tokenizer.h"
#include "lockstep/zoo.h"

namespace lockstep {
namespace {

struct Sampling {
  double temperature = 0.8;
  std::size_t top_k = 0;  ///< 0: all tokens
  double top_p = 1;       ///< 1: all tokens
  std::uint64_t seed = 1;
};

/// How many of `weights`, descending, have a share of at least `top_p` together: the fewest
/// (nucleus sampling, Holtzman et al. 2020, "The Curious Case of Neural Text Degeneration", section
/// 3.1).
std::size_t nucleus_of(std::span<const double> weights, double top_p) {
  double left = top_p * std::accumulate(weights.begin(), weights.end(), 0.0);
  std::size_t count = 0;
  while (count < weights.size() && left > 0) left -= weights[count++];
  return std::max<std::size_t>(1, count);
}

/// Draws token number `position` from softmax(logits / temperature) over the top_k likeliest, and
/// of them over the likeliest that have a share of top_p; the likeliest itself at temperature 0.
std::int32_t draw(std::span<const float> logits, const Sampling& sampling, std::uint64_t position) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(
      order, [&](auto a, auto b) { return logits[std::size_t(a)] > logits[std::size_t(b)]; });
  if (sampling.temperature == 0) return order[0];
  if (sampling.top_k > 0) order.resize(std::min(order.size(), sampling.top_k));
  std::vector<double> weights;
  for (const std::int32_t token : order)
    weights.push_back(
        std::exp((double(logits[std::size_t(token)]) - double(logits[std::size_t(order[0])])) /
                 sampling.temperature));
  if (sampling.top_p < 1) weights.resize(nucleus_of(weights, sampling.top_p));
  order.resize(weights.size());
  RandomStream random(random_key(sampling.seed, "generate"), position);
  double left = double(random.uniform()) * std::accumulate(weights.begin(), weights.end(), 0.0);
  for (std::size_t i = 0; i < order.size(); ++i) {
    left -= weights[i];
    if (left < 0) return order[i];
  }
  return order.back();
}

/// What a run's model says of the token after others: one token at a time with a cache of keys and
/// values, where the device and the model allow it, until the context is full; then of whole
/// windows, whose positions begin anew with each token.
class NextToken {
 public:
  NextToken(const SavedRun& run, Backend& backend, std::int64_t context, bool cached)
      : run_(run), backend_(backend), context_(context) {
    spec_.input = spec_.target = {{context}, DType::i32};
    spec_.classes = run.trained.samples.classes;
    if (cached)
      decoder_ = TokenDecoder::make(
          backend, model_of(run, spec_), spec_, run.flags.options.precision, run.weights);
  }

  std::span<const float> logits(std::span<const std::int32_t> tokens) {
    if (decoder_ && std::int64_t(tokens.size()) <= context_) {
      std::span<const float> last;
      while (decoder_->size() < std::int64_t(tokens.size()))
        last = decoder_->next(tokens[std::size_t(decoder_->size())]);
      return last;
    }
    return of_window(tokens);
  }

 private:
  std::span<const float> of_window(std::span<const std::int32_t> tokens) {
    if (!predictor_) {
      decoder_.reset();  // before the weights are held twice
      predictor_ = std::make_unique<BatchPredictor>(
          backend_, model_of(run_, spec_), spec_, 1, run_.flags.options.precision, run_.weights);
      warn_of_slow_operators(backend_);
    }
    const std::size_t seen = std::min(tokens.size(), std::size_t(context_));
    // What comes after the last token is not looked at: attention is causal.
    std::vector<std::int32_t> window(static_cast<std::size_t>(context_), 0);
    std::ranges::copy(tokens.last(seen), window.begin());
    const auto vocabulary = std::size_t(spec_.classes);
    return std::span(predictor_->run(window.data())).subspan((seen - 1) * vocabulary, vocabulary);
  }

  const SavedRun& run_;
  Backend& backend_;
  std::int64_t context_;
  data::SampleSpec spec_;
  std::unique_ptr<TokenDecoder> decoder_;
  std::unique_ptr<BatchPredictor> predictor_;
};

void generate(const SavedRun& run,
              const std::string& prompt,
              std::int64_t count,
              const Sampling& how,
              bool cached) {
  LOCKSTEP_CHECK(nn::reads_tokens(run.flags.model.name),
                 ConfigError,
                 "lockstep generate is for gpt and llama, this run's model is {}",
                 run.flags.model.name);
  EncodedText encoded = encode_text(prompt, run.trained);
  LOCKSTEP_CHECK(encoded.problem.empty(), ConfigError, "--prompt: {}", encoded.problem);
  std::vector<std::int32_t> tokens = std::move(encoded.tokens);
  LOCKSTEP_CHECK(
      !tokens.empty(), ConfigError, "--prompt: at least one token is needed to continue");
  const std::int64_t context =
      std::min(run.flags.model.context, std::int64_t(tokens.size()) + count);
  Job job(0, nullptr);
  job.open_device(run.device);
  LOCKSTEP_CHECK(
      job.size() == 1, ConfigError, "lockstep generate runs on one rank, not {}", job.size());
  NextToken next(run, job.backend(), context, cached);
  TokenPrinter printer(run.trained);
  const auto print = [&](std::int32_t token) {
    std::cout << printer.add(token);
    flush_output();
  };
  for (const std::int32_t token : tokens) print(token);
  for (std::int64_t i = 0; i < count; ++i) {
    tokens.push_back(draw(next.logits(tokens), how, std::uint64_t(i)));
    if (run.trained.tokenizer && run.trained.tokenizer->end_of_text() == tokens.back()) break;
    print(tokens.back());
  }
  std::cout << printer.finish() << "\n";
}

}  // namespace

int generate_command(const std::vector<std::string>& arguments) {
  CLI::App app("Lets a saved run's gpt continue a prompt.", "lockstep generate");
  std::string prompt = "\n", count = "500", top_k = "0";
  Sampling sampling;
  app.add_option("--prompt", prompt, "text to continue; token indices where tokens have no text");
  app.add_option(
         "--tokens",
         count,
         "tokens to generate; fewer where the text ends with <|endoftext|> or <|end_of_text|>")
      ->capture_default_str()
      ->check(whole_number("--tokens", 1, 1 << 24));
  app.add_option("--temperature", sampling.temperature, "0: always the likeliest token")
      ->capture_default_str()
      ->check(real_number("--temperature", 0, 1000));
  app.add_option("--top-k", top_k, "draw from the K likeliest tokens; 0: from all")
      ->capture_default_str()
      ->check(whole_number("--top-k", 0, 1 << 24));
  app.add_option("--top-p",
                 sampling.top_p,
                 "draw from the fewest likeliest tokens that have this share together; 1: from all")
      ->capture_default_str()
      ->check(real_number("--top-p", 0, 1));
  app.add_option("--sample-seed", sampling.seed, "key of the draws")->capture_default_str();
  std::string cache = "on";
  app.add_option("--kv-cache",
                 cache,
                 "whether keys and values of earlier tokens are kept; off: the whole context is "
                 "computed for each token")
      ->type_name("on|off")
      ->capture_default_str()
      ->check(one_of("--kv-cache", {"on", "off"}));
  const SavedRun run = open_saved_run(app, arguments);
  if (run.weights.empty()) return 0;
  const bool starts_lines = std::ranges::count(run.trained.class_names, prompt) > 0;
  const auto end = run.trained.tokenizer ? run.trained.tokenizer->end_of_text() : std::nullopt;
  if (app.count("--prompt") == 0 && run.trained.tokenizer)
    prompt = end ? run.trained.tokenizer->decode(std::span(&*end, 1)) : "\n";
  else if (app.count("--prompt") == 0 && !starts_lines)
    prompt = run.trained.class_names.empty() ? "0" : run.trained.class_names.front();
  sampling.top_k = std::size_t(to_whole_number(top_k));
  generate(run, prompt, to_whole_number(count), sampling, cache == "on");
  return 0;
}

}  // namespace lockstep
