// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <iostream>
#include <string>

#include "core/exec/program.h"
#include "core/nn/trace.h"
#include "core/plan/recompute.h"
#include "lockstep/zoo.h"

namespace lockstep::testing {

/// A model of the zoo, with samples that it is made for.
struct ZooCase {
  std::string model;
  Shape sample;  ///< rank 1: tokens
};

inline void PrintTo(const ZooCase& zoo, std::ostream* out) { *out << zoo.model; }

/// "gpt215b"
inline std::string name_of_zoo_case(const ::testing::TestParamInfo<ZooCase>& zoo) {
  std::string name = zoo.param.model;
  std::erase_if(name, [](char c) { return c == '-' || c == '.'; });
  return name;
}

inline Graph trace_zoo(const ZooCase& zoo,
                       std::int64_t micro_batch,
                       Precision precision,
                       bool recomputes = false) {
  const bool tokens = zoo.sample.rank() == 1;
  data::SampleSpec spec;
  spec.input = {zoo.sample, tokens ? DType::i32 : DType::f32};
  spec.target = {tokens ? zoo.sample : Shape{}, DType::i32};
  spec.classes = tokens ? 50257 : 1000;
  BuilderSettings settings;
  settings.micro_batch = micro_batch;
  settings.precision = precision;
  settings.recompute = recomputes;
  const Graph graph = trace(nn::make_model({.name = zoo.model, .outputs = spec.classes}),
                            softmax_cross_entropy,
                            spec,
                            settings);
  if (!recomputes) return graph;
  const auto choices = recompute_choices(graph);
  return recompute(graph, choices[index_of_all(choices)].dropped);
}

/// Issue 8, figure 4, for training programs with and without recomputation: the arena of a compiled
/// program is within 5% of the bound of its order.
inline void expect_arena_near_its_bound(const ZooCase& zoo,
                                        std::int64_t micro_batch,
                                        Precision precision,
                                        Backend& backend) {
  for (const bool recomputes : {false, true}) {
    const Graph graph = trace_zoo(zoo, micro_batch, precision, recomputes);
    const FlatSpace space = lay_out(graph, 1 << 20);
    const Program program(graph, backend, space, MemoryReuse::on);
    const Program given(graph, backend, space, MemoryReuse::on, NodeOrder::as_given);
    const double bound = double(arena_lower_bound(program.plan().buffers));
    const double bytes = double(program.arena_bytes()), bytes_given = double(given.arena_bytes());
    const std::string what = fmt::format("{} {} micro-batch {} recompute {}",
                                         zoo.model,
                                         name_of(precision),
                                         micro_batch,
                                         recomputes ? "all" : "none");
    EXPECT_LE(bytes, 1.05 * bound) << what;
    std::cout << fmt::format(
        "{}: arena {:.2f} MiB ({:.4f} of its bound), in the given order {:.2f}\n",
        what,
        bytes / (1 << 20),
        bytes / bound,
        bytes_given / (1 << 20));
  }
}

}  // namespace lockstep::testing
