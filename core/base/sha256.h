// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace lockstep {

/// SHA-256 (FIPS 180-4) of bytes that come one after the other.
class Sha256 {
 public:
  /// Throws OutOfMemory, or EnvironmentError where OpenSSL refuses the algorithm.
  Sha256();

  void update(std::span<const std::byte> bytes);
  /// 64 hexadecimal digits, as `sha256sum` prints them, of what came so far; more may follow.
  std::string hex() const;

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  using Context = std::unique_ptr<evp_md_ctx_st, Free>;
  static Context make_context();

  Context context_;
};

std::string sha256_of(std::string_view text);

}  // namespace lockstep
