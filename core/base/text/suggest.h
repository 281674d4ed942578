// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// Number of single-character insertions, deletions, replacements and swaps of neighbours that turn
/// `a` into `b` (optimal string alignment distance). Case does not count.
int edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to a misspelt `word`, the first of equals; empty where none is near enough
/// to be meant. Near enough: at most max(2, longer length / 3) edits and fewer than the length of
/// either, or one is the beginning of the other and at least 2 characters long.
std::string nearest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace lockstep
