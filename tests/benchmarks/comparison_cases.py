# SPDX-License-Identifier: Apache-2.0
"""What compare_pytorch.py measures."""
import dataclasses


@dataclasses.dataclass
class Peer:
    """One way to run PyTorch (torch_peer.py says what the modes are)."""
    mode: str
    ranks: int
    threads: int = 1
    precision: str = "fp32"

    @property
    def name(self):
        return f"{self.mode} {self.ranks}x{self.threads} {self.precision}"


@dataclasses.dataclass
class Ceiling:
    """Arguments of conv_ceiling."""
    image_size: int
    channels: int
    network: str = "resnet18-cifar"
    precision: str = "fp32"

    @property
    def name(self):
        return f"convolutions alone {self.precision}"


@dataclasses.dataclass
class Case:
    name: str
    goal: str  # what is asked for, in words
    model: str
    data: str  # csv (a generated table), mnist, text, tokens (random ones) or a source of Lockstep's
    global_batch: int
    ranks: int
    steps: int
    lockstep: list  # flags of `lockstep train`: model and optimizer
    optimizer: dict  # the same for torch_peer.py
    ours: dict  # contestants of Lockstep and their further flags; the first is the one compared
    peers: list
    ceilings: list = dataclasses.field(default_factory=list)  # the first is the one compared
    widths: tuple = ()  # mlp
    gpt: dict = dataclasses.field(default_factory=dict)
    image: tuple = (1, 28, 28)  # what PyTorch trains on where data is synthetic
    classes: int = 10
    samples: int = 0  # of a generated table or random images
    log_every: int = 200
    peer_steps: int = 0  # 0: steps
    warmup: int = 20  # steps of PyTorch that are not timed


def sgd(momentum=0.0):
    flags = ["--optimizer", "sgd", "--lr", "0.01"]
    return (flags + (["--momentum", str(momentum)] if momentum else []),
            {"kind": "sgd", "lr": 0.01, "momentum": momentum})


def peers(ranks, modes=("eager", "compiled", "compiled-step"), precisions=("fp32",)):
    return [Peer(mode, ranks, 1, precision) for precision in precisions for mode in modes]


def mlp_case(name, goal, widths, batch, ranks, steps, samples=0):
    flags, optimizer = sgd()
    flags += ["--hidden", ",".join(str(w) for w in widths[1:-1])]
    return Case(name, goal, "mlp", "csv", batch, ranks, steps, flags, optimizer,
                {"Lockstep": ["--micro-batch", str(batch // ranks)]}, peers(ranks), widths=widths,
                classes=widths[-1], samples=samples or batch)


def convnet_case():
    flags, optimizer = sgd(0.9)
    return Case("convnet", "1.5x, goal 2x", "convnet", "mnist", 256, 2, 200, flags, optimizer,
                {"Lockstep": ["--micro-batch", "32"]}, peers(2), log_every=50, peer_steps=100)


def resnet_case(name, goal, model, data, image, batch, steps, **further):
    flags, optimizer = sgd(0.9)
    case = {"ours": {"Lockstep": ["--micro-batch", "32"]}, "peers": peers(2, ("eager", "compiled")),
            "ceilings": [Ceiling(image[1], image[0])], "log_every": 4, "peer_steps": 6, "warmup": 3,
            **further}
    stem = ["--stem", "cifar"] if model == "resnet18" else []
    return Case(name, goal, model, data, batch, 2, steps, flags + stem, optimizer, image=image,
                samples=4 * batch, **case)


def vit_case(name, precision):
    return Case(name, "1.3x", "vit-s16", "synthetic:224x224x3:1000", 32, 2, 6,
                ["--optimizer", "adamw", "--lr", "1e-3", "--weight-decay", "0.05", "--precision", precision],
                {"kind": "adamw", "lr": 1e-3, "betas": (0.9, 0.999), "weight_decay": 0.05},
                {"Lockstep": ["--micro-batch", "16"]}, peers(2, ("eager", "compiled"), (precision,)),
                image=(3, 224, 224), classes=1000, samples=128, log_every=1, peer_steps=4, warmup=2)


def mobilenet_case(name, precision):
    flags, optimizer = sgd(0.9)
    return Case(name, "1.5x", "mobilenet-v2", "synthetic:224x224x3:1000", 32, 2, 8,
                [*flags, "--precision", precision], optimizer,
                {"Lockstep": ["--micro-batch", "16"]}, peers(2, ("eager", "compiled"), (precision,)),
                image=(3, 224, 224), classes=1000, samples=128, log_every=1, peer_steps=6, warmup=2)


# nanoGPT's published run on a CPU.
NANOGPT_SIZES = {"layers": 4, "heads": 4, "width": 128, "context": 64}
NANOGPT_STEPS = 2000
NANOGPT_OPTIMIZER = {"kind": "adamw", "lr": 1e-3, "min_lr": 1e-4, "warmup_steps": 100,
                     "decay_steps": NANOGPT_STEPS, "betas": (0.9, 0.99), "weight_decay": 0.1,
                     "clip": 1.0}
NANOGPT_FLAGS = [
    "--model", "gpt", "--layers", "4", "--heads", "4", "--width", "128", "--context", "64",
    "--bias", "off", "--gelu", "erf", "--tied-head", "on", "--dropout", "0", "--global-batch", "12",
    "--val-fraction", "0.1", "--optimizer", "adamw", "--lr", "1e-3", "--lr-schedule", "cosine",
    "--min-lr", "1e-4", "--warmup-steps", "100", "--decay-steps", str(NANOGPT_STEPS - 100),
    "--beta1", "0.9", "--beta2", "0.99", "--weight-decay", "0.1", "--clip-norm", "1.0"]


def nanogpt_case(name, goal, precision):
    flags = ["--precision", precision]
    ours = {"Lockstep, micro-batch 6": [*flags, "--micro-batch", "6"],
            "Lockstep, micro-batch 3": [*flags, "--micro-batch", "3"]}
    contestants = [Peer(mode, ranks, 2 // ranks, precision)
                   for ranks in (1, 2) for mode in ("eager", "compiled")]
    return Case(name, goal, "gpt", "text", 12, 2, NANOGPT_STEPS, NANOGPT_FLAGS, NANOGPT_OPTIMIZER,
                ours, contestants, gpt={**NANOGPT_SIZES, "vocabulary": 65})


# llama2.c's model of 15 million parameters, on random tokens.
LLAMA_SIZES = {"layers": 6, "heads": 6, "width": 288, "context": 256}
LLAMA_OPTIMIZER = {"kind": "adamw", "lr": 5e-4, "betas": (0.9, 0.95), "weight_decay": 0.1, "clip": 1.0}


def llama_case(name, goal, precision):
    flags = [f for key, value in LLAMA_SIZES.items() for f in (f"--{key}", str(value))]
    flags += ["--mlp-width", "768", "--val-fraction", "0.1", "--lr-schedule", "constant", "--warmup-steps", "0",
              "--optimizer", "adamw", "--lr", "5e-4", "--beta2", "0.95", "--weight-decay", "0.1", "--clip-norm", "1.0",
              "--precision", precision]
    return Case(name, goal, "llama", "tokens", 8, 2, 12, flags, LLAMA_OPTIMIZER,
                {"Lockstep": ["--micro-batch", "4"]}, peers(2, ("eager", "compiled"), (precision,)),
                gpt={**LLAMA_SIZES, "hidden": 768, "vocabulary": 32000}, log_every=1, peer_steps=8, warmup=2)


CASES = [
    mlp_case("iris", "50x", (4, 10, 3), 120, 1, 20000),
    mlp_case("iris-2-ranks", "50x", (4, 10, 3), 120, 2, 20000),
    # The arithmetic alone grows with the batch: at 120 it takes a third of PyTorch's step, whoever
    # does it. So each network is measured at three sizes.
    mlp_case("mlp-16-64-64-10-batch-4", "20x", (16, 64, 64, 10), 4, 1, 10000, samples=1600),
    mlp_case("mlp-16-64-64-10-batch-16", "20x", (16, 64, 64, 10), 16, 1, 10000, samples=1600),
    mlp_case("mlp-16-64-64-10-batch-120", "20x", (16, 64, 64, 10), 120, 1, 10000, samples=1200),
    mlp_case("mlp-784-32-10-batch-4", "20x", (784, 32, 10), 4, 1, 10000, samples=1600),
    mlp_case("mlp-784-32-10-batch-16", "20x", (784, 32, 10), 16, 1, 10000, samples=1600),
    mlp_case("mlp-784-32-10-batch-120", "20x", (784, 32, 10), 120, 1, 5000, samples=1200),
    convnet_case(),
    resnet_case("resnet18", "90% of the ceiling", "resnet18", "mnist", (1, 28, 28), 128, 12),
    resnet_case("resnet18-bf16", "80% of the bf16 ceiling, 1x, own fp32 1.6x", "resnet18",
                "synthetic:32x32x3:10", (3, 32, 32), 128, 12,
                ours={"Lockstep, bf16": ["--micro-batch", "32", "--precision", "bf16"],
                      "Lockstep, fp32": ["--micro-batch", "32"]},
                peers=peers(2, ("eager", "compiled"), ("fp32", "bf16")),
                ceilings=[Ceiling(32, 3, precision="bf16"), Ceiling(32, 3)]),
    resnet_case("resnet50", "85% of the ceiling", "resnet50", "synthetic:224x224x3:1000",
                (3, 224, 224), 32, 8, ours={"Lockstep": ["--micro-batch", "16"]}, classes=1000,
                ceilings=[Ceiling(224, 3, "resnet50")], log_every=1, peer_steps=4, warmup=2),
    mobilenet_case("mobilenet_v2", "fp32"),
    mobilenet_case("mobilenet_v2-bf16", "bf16"),
    vit_case("vit_s16", "fp32"),
    vit_case("vit_s16-bf16", "bf16"),
    nanogpt_case("nanogpt", "1.6x, 11 ms", "fp32"),
    nanogpt_case("nanogpt-bf16", "1.6x, 7 ms", "bf16"),
    llama_case("llama-15m", "1.6x", "fp32"),
    llama_case("llama-15m-bf16", "1.6x", "bf16"),
]
