"""What the runs are compared with: the frozen encoder with a linear head, and first-order fine-tuning by torch.

python yardsticks.py probe
python yardsticks.py first-order --rate 2e-5 --epochs 2
python yardsticks.py first-order --trainable "bias$|^head" --rate 2e-3 --epochs 2
python yardsticks.py memory --factory make
python yardsticks.py curvature --factory make --fitted
python yardsticks.py signal                          # with HEAD=FILE, as the other two, from a trained head
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
from minilm import BIASES, model_folder, padded, pretrained


def torch_loss(net: Any, rows: tuple[list[list[int]], Any]) -> dict[str, Any]:
    """Return the logistic loss of each sentence and whether its class is found, as ``reviews.loss`` does."""
    import torch

    sentences, labels = rows
    margins = net(torch.from_numpy(padded(sentences))).double() * torch.as_tensor(labels)
    return {"loss": torch.nn.functional.softplus(-margins), "accuracy": margins > 0.0}


def probe() -> None:
    """Print the loss and the accuracy of the best linear head on the frozen encoder."""
    loss, accuracy, _ = fitted_head()
    print(f"a linear head by L-BFGS: training loss {loss:.4f}, accuracy on dev {accuracy:.4f}")


def fitted_head() -> tuple[float, float, list[Any]]:
    """Return the training loss and the accuracy on dev of the best linear head, and its weights and intercept."""
    from reviews import sentence_vectors
    from sklearn.linear_model import LogisticRegression

    (features, labels), dev = sentence_vectors("train"), sentence_vectors("dev")
    head = LogisticRegression(C=1e4 / len(labels), max_iter=2000).fit(features, labels)
    loss = np.logaddexp(0.0, -labels * head.decision_function(features)).mean()
    return float(loss), float(head.score(*dev)), [head.coef_, head.intercept_]


def memory(factory: str) -> None:
    """Print the peak memory of a site: its model, a copy of what is trained, and an evaluation of 64 sentences."""
    import reviews

    from zofedht import Shard

    site = getattr(reviews, factory)(Shard(count=4))
    copy = [numbers.copy() for numbers in site.tensors()]
    site.value(np.arange(64))
    held = sum(numbers.nbytes for numbers in copy) / 1e6
    print(f"{factory}: {site.dim:,} parameters, {held:.1f} MB; peak memory of the process {_peak():.0f} MB")


def curvature(factory: str, fitted: bool, count: int = 12, radius: float = 3e-3) -> None:
    """Print v'Hv of the loss of 64 sentences along random signs v, at the start or with the best head."""
    import reviews

    from zofedht import Shard
    from zofedht.common.random.streams import Address
    from zofedht.common.tensors.directions import Direction

    site, batch = getattr(reviews, factory)(Shard(count=4)), np.arange(64)
    if fitted:
        for numbers in fitted_head()[2]:
            places = [place for place, one in enumerate(site.blocks) if one.name.startswith("head")]
            place = next(place for place in places if site.blocks[place].size == numbers.size)
            block = site.blocks[place]
            site.put(place, numbers.reshape(block.shape).astype(block.numpy_dtype))
    base, found = site.value(batch), []
    for number in range(count):
        v, ends = Direction(Address(0, 0, 0), number, "rademacher"), []
        for length in (radius, -2.0 * radius):
            site.add(v, length)
            ends.append(site.value(batch))
        site.add(v, radius)
        found.append((sum(ends) - 2.0 * base) / radius**2)
    spread = f"from {min(found):.3g} to {max(found):.3g}"
    print(f"{factory}: mean v'Hv {np.mean(found):.3g}, median {np.median(found):.3g}, {spread} over {count} directions")


def signal(batches: int, batch: int = 16, seed: int = 1) -> None:
    """Print |g|^2 of the training loss, and the variance of the gradient of one sentence, by torch."""
    import torch
    from reviews import read

    net, (rows, labels) = _torch_net(), read("train")
    trained = dict(net.named_parameters())
    sums = {name: torch.zeros_like(parameter) for name, parameter in trained.items()}
    squares, rng = dict.fromkeys(trained, 0.0), np.random.default_rng(seed)
    for _ in range(batches):
        chosen = rng.choice(len(rows), batch, replace=False)
        net.zero_grad()
        torch_loss(net, ([rows[index] for index in chosen], labels[chosen]))["loss"].mean().backward()
        for name, parameter in trained.items():
            sums[name] += parameter.grad
            squares[name] += float(parameter.grad.double().square().sum()) / batches
    for what, pattern in (("biases and head", BIASES), ("all weights", "")):
        names = [name for name in trained if re.search(pattern, name)]
        of_mean = sum(float((sums[name] / batches).double().square().sum()) for name in names)
        variance = (sum(squares[name] for name in names) - of_mean) * batch / (1.0 - 1.0 / batches)
        told = f"|g|^2 {of_mean - variance / (batch * batches):.3g}, variance of one sentence {variance:.3g}"
        print(f"{what}: {told}, from {batch * batches:,} sentences")


def _torch_net() -> Any:
    """Return the net with the pretrained encoder, and the head of the file that HEAD names, else of zeros."""
    import torch
    from net import Sentences

    torch.set_num_threads(1)
    weights = pretrained(model_folder())
    if file := os.environ.get("HEAD"):
        with np.load(file) as head:
            weights |= {name: head[name] for name in head.files}
    net = Sentences()
    net.load_state_dict({name: torch.from_numpy(numbers) for name, numbers in weights.items()})
    return net


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def first_order(
    trainable: str,
    rate: float,
    epochs: int = 2,
    batch: int = 32,
    seed: int = 0,
    sentences: int = 6920,
    keep: Path | None = None,
) -> list[dict[str, Any]]:
    """Return the loss and the accuracy on dev after each epoch of AdamW with a linear schedule, from the same start.

    ``keep`` is a folder with what an interrupted run goes on from.
    """
    import torch
    from reviews import read

    net = _torch_net()
    for name, parameter in net.named_parameters():
        parameter.requires_grad_(bool(re.search(trainable, name)))
    trained = [parameter for parameter in net.parameters() if parameter.requires_grad]
    (rows, labels), dev = read("train"), read("dev")
    rows = rows[:sentences]
    steps = epochs * (len(rows) // batch)
    shares = [min(1.0, 10.0 * step / steps, 1.0 - step / steps) for step in range(steps + 1)]
    optimiser = torch.optim.AdamW(trained, lr=rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: shares[step])
    kept, told = None if keep is None else keep / "epochs.pt", list[dict[str, Any]]()
    if kept is not None and kept.is_file():
        state = torch.load(kept, weights_only=True)
        for part, own in ((net, "net"), (optimiser, "optimiser"), (schedule, "schedule")):
            part.load_state_dict(state[own])
        told = state["told"]
    size = sum(parameter.numel() for parameter in trained)
    print(f"{size:,} parameters, AdamW, rate {rate:g}, batches of {batch}")
    for epoch in range(len(told), epochs):
        began, order = time.process_time(), np.random.default_rng((seed, epoch)).permutation(len(rows))
        for start in range(0, len(rows) - batch + 1, batch):
            chosen = order[start : start + batch]
            optimiser.zero_grad()
            torch_loss(net, ([rows[index] for index in chosen], labels[chosen]))["loss"].mean().backward()
            optimiser.step()
            schedule.step()
        seconds = time.process_time() - began + (told[-1]["seconds"] if told else 0.0)
        with torch.inference_mode():
            parts = np.array_split(np.argsort([len(row) for row in dev[0]]), 28)
            found = [torch_loss(net, ([dev[0][index] for index in part], dev[1][part])) for part in parts]
        loss, accuracy = (torch.cat([one[name].double() for one in found]).mean() for name in ("loss", "accuracy"))
        passed = 3 * (epoch + 1) * batch * (len(rows) // batch)  # a gradient takes the time of two passes more
        told.append(
            {
                "parameters": size, "sentences": passed, "loss": float(loss), "accuracy": float(accuracy),
                "seconds": seconds, "peak_mb": _peak(),
            }
        )  # fmt: skip
        cost = f"{seconds:.0f} CPU seconds, peak memory {_peak():.0f} MB"
        print(f"epoch {epoch + 1}: loss on dev {loss:.4f}, accuracy {accuracy:.4f}, {cost}", flush=True)
        if kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            parts_of = {"net": net, "optimiser": optimiser, "schedule": schedule}
            state = {own: part.state_dict() for own, part in parts_of.items()}
            torch.save(state | {"told": told}, kept.with_suffix(".part"))
            kept.with_suffix(".part").replace(kept)
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["probe", "first-order", "memory", "curvature", "signal"])
    parser.add_argument("--trainable", default="", help="regular expression for names of tensors; all by default")
    parser.add_argument("--rate", type=float, default=2e-5)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sentences", type=int, default=6920, help="so many of the training part")
    parser.add_argument("--batches", type=int, default=120, help="of 16 sentences, for the signal")
    parser.add_argument("--factory", default="biases", help="biases, low_rank or make")
    parser.add_argument("--fitted", action="store_true", help="curvature with the best head in the place of zeros")
    given = parser.parse_args()
    if given.what == "probe":
        probe()
    elif given.what == "memory":
        memory(given.factory)
    elif given.what == "signal":
        signal(given.batches)
    elif given.what == "curvature":
        curvature(given.factory, given.fitted)
    else:
        first_order(given.trainable, given.rate, given.epochs, given.batch, given.seed, given.sentences)


if __name__ == "__main__":
    main()
