# SPDX-License-Identifier: Apache-2.0
"""What compare_pytorch.py --device cuda measures, and what is asked for on one H100."""
import dataclasses

from comparison_cases import NANOGPT_OPTIMIZER


@dataclasses.dataclass
class Ours:
    """One way to run Lockstep."""
    name: str
    flags: list
    environment: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Mode:
    """One way to run PyTorch (torch_peer_cuda.py says what the modes are)."""
    name: str
    micro_batch: int = 0  # 0: the case's
    share: float = 1.0  # of the steps, where it is slow


@dataclasses.dataclass
class Reach:
    """A whole training of Lockstep's: how long until a validation loss."""
    loss: float
    seconds: float  # asked for
    steps: int
    every: int  # steps between validations


@dataclasses.dataclass
class CudaCase:
    name: str
    model: str
    data: str  # csv (a generated table), tokens (random ones), text, or a source of Lockstep's
    precision: str
    global_batch: int
    micro_batch: int
    window: int  # steps of one timing
    lockstep: list  # flags of `lockstep train`: model and optimizer
    optimizer: dict  # the same for torch_peer_cuda.py
    modes: list  # of PyTorch
    unit: str = "images/s"  # or tokens/s
    per_sample: int = 1  # of these in a sample
    asked_rate: float = 0  # 0: nothing is asked for
    asked_ratio: float = 0  # of PyTorch's time to Lockstep's
    asked_us: float = 0  # a step
    lead: int = 0  # steps that are not timed; 0: one window
    windows: int = 8
    ours: list = dataclasses.field(default_factory=list)
    widths: tuple = ()  # mlp
    gpt: dict = dataclasses.field(default_factory=dict)
    image: tuple = ()
    classes: int = 10
    samples: int = 0  # of a generated table
    reach: Reach | None = None


WITHOUT_GRAPHS = {"LOCKSTEP_GRAPH": "0"}
# What compiled-tuned is to compiled.
LOCKSTEP, TIMED = Ours("Lockstep", []), Ours("Lockstep, algorithms timed", ["--algorithms", "timed"])


def sgd(momentum=0.0):
    flags = ["--optimizer", "sgd", "--lr", "0.01", "--momentum", str(momentum)]
    return flags, {"kind": "sgd", "lr": 0.01, "momentum": momentum}


def modes(*names):
    return [Mode(name) for name in names]


def gpt2_case():
    """GPT-2 as llm.c and nanoGPT train it: 524,288 tokens a step, AdamW, gradients clipped."""
    flags = ["--model", "gpt2-124m", "--optimizer", "adamw", "--lr", "6e-4", "--beta1", "0.9",
             "--beta2", "0.95", "--weight-decay", "0.1", "--clip-norm", "1.0"]
    optimizer = {"kind": "adamw", "lr": 6e-4, "betas": (0.9, 0.95), "weight_decay": 0.1,
                 "clip": 1.0}
    # PyTorch's vocabulary is padded, as its users do; Lockstep's is GPT-2's own, and padded.
    sizes = {"layers": 12, "heads": 12, "width": 768, "context": 1024, "vocabulary": 50304,
             "bias": True, "gelu": "tanh"}
    return CudaCase(
        "gpt2-124m", "gpt", "tokens", "bf16", 512, 64, 4, flags, optimizer,
        [Mode("eager", micro_batch=16, share=0.5), Mode("compiled"), Mode("compiled-tuned")],
        "tokens/s", 1024, asked_rate=615_000, asked_ratio=1.15, windows=5, gpt=sizes,
        ours=[LOCKSTEP, TIMED, Ours("Lockstep, vocabulary 50304", ["--vocabulary", "50304"])])


def resnet50_case():
    flags, optimizer = sgd(0.9)
    return CudaCase(
        "resnet50", "resnet50", "synthetic:224x224x3:1000", "bf16", 256, 256, 20,
        ["--model", "resnet50", *flags], optimizer,
        modes("eager", "compiled", "compiled-overhead", "compiled-tuned", "compiled-graph"),
        asked_rate=5_000, asked_ratio=1.3, image=(3, 224, 224), classes=1000,
        ours=[LOCKSTEP, TIMED])


def resnet18_case(name, batch, precision="bf16", asked=1.5):
    flags, optimizer = sgd(0.9)
    return CudaCase(
        name, "resnet18", "synthetic:32x32x3:10", precision, batch, batch, 50,
        ["--model", "resnet18", "--stem", "cifar", *flags], optimizer,
        modes("eager", "compiled", "compiled-overhead", "graph", "compiled-graph"),
        asked_ratio=asked, image=(3, 32, 32), ours=[LOCKSTEP, TIMED])


# nanoGPT's published run on a GPU.
CHARACTER_STEPS = 5000
CHARACTER_SIZES = {"layers": 6, "heads": 6, "width": 384, "context": 256, "vocabulary": 65,
                   "bias": False, "gelu": "none", "dropout": 0.2}
CHARACTER_FLAGS = [
    "--model", "gpt", "--layers", "6", "--heads", "6", "--width", "384", "--context", "256",
    "--bias", "off", "--gelu", "erf", "--tied-head", "on", "--dropout", "0.2",
    "--val-fraction", "0.1", "--optimizer", "adamw", "--lr", "1e-3", "--lr-schedule", "cosine",
    "--min-lr", "1e-4", "--warmup-steps", "100", "--decay-steps", str(CHARACTER_STEPS - 100),
    "--beta1", "0.9", "--beta2", "0.99", "--weight-decay", "0.1", "--clip-norm", "1.0"]


def character_case():
    return CudaCase(
        "nanogpt-char", "gpt", "text", "bf16", 64, 64, 50, CHARACTER_FLAGS,
        {**NANOGPT_OPTIMIZER, "decay_steps": CHARACTER_STEPS},
        modes("eager", "compiled", "compiled-overhead", "graph", "compiled-graph"),
        "tokens/s", 256, asked_ratio=1.5, gpt=CHARACTER_SIZES,
        ours=[LOCKSTEP, TIMED, Ours("Lockstep without graphs", [], WITHOUT_GRAPHS)],
        reach=Reach(1.49, 30, CHARACTER_STEPS, 250))


def iris_case():
    flags, optimizer = sgd()
    return CudaCase(
        "iris", "mlp", "csv", "fp32", 150, 150, 4000,
        ["--model", "mlp", "--hidden", "10,10", *flags], optimizer,
        [Mode("eager", share=0.1), Mode("compiled", share=0.1),
         Mode("compiled-overhead", share=0.1), Mode("graph"), Mode("compiled-graph")],
        "samples/s", asked_us=25, widths=(4, 10, 10, 3), classes=3, samples=150,
        ours=[LOCKSTEP, Ours("Lockstep without graphs", [], WITHOUT_GRAPHS)])


CUDA_CASES = [
    iris_case(),
    resnet18_case("resnet18", 128),
    resnet18_case("resnet18-batch-512", 512),
    resnet18_case("resnet18-tf32", 512, "tf32", 0),
    character_case(),
    resnet50_case(),
    gpt2_case(),
]
