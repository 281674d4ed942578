// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Opcodes of pickles, as Python's pickletools name them: those that state dicts need.
namespace lockstep::io::torch::op {

inline constexpr unsigned char kMark = '(', kStop = '.', kPop = '0', kPopMark = '1', kNone = 'N',
                               kBinInt = 'J', kBinInt1 = 'K', kBinInt2 = 'M', kBinFloat = 'G',
                               kBinString = 'T', kShortBinString = 'U', kBinUnicode = 'X',
                               kBinBytes = 'B', kShortBinBytes = 'C', kEmptyTuple = ')',
                               kTuple = 't', kEmptyList = ']', kAppend = 'a', kAppends = 'e',
                               kEmptyDict = '}', kSetItem = 's', kSetItems = 'u', kBinGet = 'h',
                               kLongBinGet = 'j', kBinPut = 'q', kLongBinPut = 'r', kGlobal = 'c',
                               kReduce = 'R', kBuild = 'b', kBinPersId = 'Q';
// Protocol 2.
inline constexpr unsigned char kProto = 0x80, kTuple1 = 0x85, kTuple2 = 0x86, kTuple3 = 0x87,
                               kNewTrue = 0x88, kNewFalse = 0x89, kLong1 = 0x8a;
// Protocol 4.
inline constexpr unsigned char kShortBinUnicode = 0x8c, kBinUnicode8 = 0x8d, kStackGlobal = 0x93,
                               kMemoize = 0x94, kFrame = 0x95;

}  // namespace lockstep::io::torch::op
