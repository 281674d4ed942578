#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The matrix products and convolutions of operator_rates by PyTorch, on the same device.

  torch_rates.py RATES.json [--json FILE]

RATES.json is what `operator_rates --json` wrote: it says which shapes, and how long Lockstep took.
Channels last, no torch.compile, cudnn.benchmark on, allow_tf32 on for tf32 alone. In bf16 all of
PyTorch's tensors are bf16: its weights need no conversion, and their gradients are rounded and added
to nothing, where Lockstep's stay fp32 and are accumulated. PyTorch's times are by CUDA events around as many calls as
fill a timing, the median of several. Prints PyTorch's time over Lockstep's for each shape and the
geometric means, with and without the bf16 copy of the weight, which Lockstep makes once a step: it
counts in the forward pass.
Exit code 3, saying "not measured", without PyTorch or a GPU; 1 where a shape failed.
"""
import argparse
import json
import math
import statistics
import sys

TIMING_MS = 10.0
TIMINGS = 7


def not_measured(why):
    print(f"torch_rates: not measured: {why}")
    sys.exit(3)


try:
    import torch
    import torch.nn.functional as F
except ImportError as error:
    not_measured(error)


def median_us(call):
    def timed(calls):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(calls):
            call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / calls

    timed(3)  # chooses algorithms
    calls = max(3, int(TIMING_MS / max(timed(3), 1e-3)))
    timed(calls)
    return 1e3 * statistics.median(timed(calls) for _ in range(TIMINGS))


def uniform(case, *shape):
    values = torch.rand(shape, device="cuda", dtype=torch.float32).mul_(2).sub_(1)
    return values.bfloat16() if case["type"] == "bf16" else values


def linear(case):
    """One pass; the gradients as autograd computes them, without its own time on the host."""
    x, y = uniform(case, case["rows"], case["in"]), uniform(case, case["rows"], case["out"])
    w = uniform(case, case["out"], case["in"])
    b = uniform(case, case["out"]) if case["bias"] else None
    if case["pass"] == "data":
        return lambda: y @ w
    if case["pass"] == "weights":
        if case["bias"]:
            return lambda: (y.t() @ x, y.sum(0))
        return lambda: y.t() @ x
    if case["activation"] == "gelu_tanh":
        return lambda: F.gelu(F.linear(x, w, b), approximate="tanh")
    if case["activation"]:
        raise SystemExit(f"torch_rates: unknown activation {case['activation']}")
    return lambda: F.linear(x, w, b)


def conv2d(case):
    """One pass; the gradients by what autograd and torch.nn.grad call."""
    def image(size, channels):
        values = uniform(case, case["samples"], size, size, channels)
        return values.permute(0, 3, 1, 2)  # channels last in memory

    kernel, stride, padding = case["kernel"], case["stride"], case["padding"]
    x = image(case["size"], case["in"])
    w = uniform(case, case["out"], kernel, kernel, case["in"]).permute(0, 3, 1, 2)
    if case["pass"] == "forward":
        return lambda: F.conv2d(x, w, stride=stride, padding=padding)
    dy = image((case["size"] + 2 * padding - kernel) // stride + 1, case["out"])
    wanted = [case["pass"] == "data", case["pass"] == "weights", False]
    return lambda: torch.ops.aten.convolution_backward(
        dy, x, w, None, [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], 1, wanted)


def geometric_mean(values):
    return math.exp(sum(math.log(v) for v in values) / len(values))


def measure(rate):
    case = rate["torch"]
    tf32 = case["type"] == "tf32"
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = tf32
    try:
        torch_us = median_us({"linear": linear, "conv2d": conv2d}[case["kind"]](case))
    except RuntimeError as error:
        return {"error": " ".join(str(error).split())[:200]}
    finally:
        torch.cuda.empty_cache()
    us, conversion = rate["us"], conversion_us(rate)
    return {"kind": case["kind"], "pass": case["pass"], "type": case["type"], "torch_us": torch_us,
            "ratio": torch_us / (us + conversion), "ratio_without_conversion": torch_us / us}


def conversion_us(rate):
    return rate["conversion_us"] if rate["torch"]["pass"] == "forward" else 0.0


def report(rates):
    print("| operator | type | shape | Lockstep, us | + conversion | PyTorch, us | PyTorch / Lockstep | "
          "without conversion |\n|---|---|---|---|---|---|---|---|")
    results = []
    for rate in rates:
        start = f"| {rate['operator']} | {rate['type']} | {rate['shape']} |"
        if "error" in rate:
            print(f"{start} not measured: {rate['error']} | | | | |")
            continue
        result = measure(rate)
        results.append({**rate, **result})
        if "error" in result:
            print(f"{start} {rate['us']:.1f} | | not measured: {result['error']} | | |")
            continue
        conversion = f"{conversion_us(rate):.1f}" if conversion_us(rate) else ""
        print(f"{start} {rate['us']:.1f} | {conversion} | {result['torch_us']:.1f} | "
              f"{result['ratio']:.2f} | {result['ratio_without_conversion']:.2f} |", flush=True)
    return results


def summarise(results):
    print("\n| geometric mean over | shapes | PyTorch / Lockstep | without conversion | slower |"
          "\n|---|---|---|---|---|")
    groups = sorted({(r["type"], r["kind"], r["pass"]) for r in results})
    types = sorted({(r["type"],) for r in results})
    for group in [*groups, *types, ()]:
        of = [r for r in results if (r["type"], r["kind"], r["pass"])[:len(group)] == group]
        name = ", ".join(group) or "all"
        print(f"| {name} | {len(of)} | {geometric_mean([r['ratio'] for r in of]):.3f} | "
              f"{geometric_mean([r['ratio_without_conversion'] for r in of]):.3f} | "
              f"{sum(r['ratio'] < 1 for r in of)} |")
    slower = sorted((r for r in results if r["ratio"] < 1), key=lambda r: r["ratio"])
    print(f"\nSlower than PyTorch: {len(slower)} of {len(results)}")
    for r in slower:
        print(f"- {r['ratio']:.2f} {r['operator']} {r['type']} {r['shape']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rates", help="what operator_rates --json wrote")
    parser.add_argument("--json", help="where to write the same as JSON")
    arguments = parser.parse_args()
    with open(arguments.rates, encoding="utf-8") as file:
        rates = [rate for rate in json.load(file)["rates"] if "torch" in rate]
    if not rates:
        sys.exit(f"torch_rates: {arguments.rates} holds no products")
    if not torch.cuda.is_available():
        not_measured("PyTorch finds no GPU")
    torch.backends.cudnn.benchmark = True
    print(f"PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, "
          f"{torch.cuda.get_device_name()}\n")
    with torch.inference_mode():
        results = report(rates)
    measured = [r for r in results if "torch_us" in r]
    if measured:
        summarise(measured)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
    sys.exit(0 if len(measured) == len(rates) else 1)


if __name__ == "__main__":
    main()
