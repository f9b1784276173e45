"""Print how often the closed model is right on photographs outside the training."""

from __future__ import annotations

import argparse

import numpy as np
from adapter import START, adapted, ask, photographs

from zofedht import load_run


def held_out_accuracy(x: np.ndarray, clients: int, seed: int) -> float:
    """Return the mean accuracy over clients; each client holds out its first third."""
    right = []
    for number in range(clients):
        photos, labels = photographs(number, clients, seed)
        third = len(labels) // 3
        answers = ask(adapted(x, photos[:third]), tries=5).argmax(axis=1)
        right.append(np.mean(answers == labels[:third]))
    return float(np.mean(right))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", help="result folder of the run")
    run = load_run(arguments.parse_args().folder)
    config = run.config
    skipped = sum(entry["steps"] for record in run.history for entry in record["skipped"])
    steps = config.rounds * config.clients_per_round * config.local_steps
    print(f"{skipped} of {steps} steps were skipped, as the model was too busy")
    print("right on held-out photographs")
    for text, x in (("sent as they are", START), ("behind the adapter", run.x)):
        print(f"{held_out_accuracy(x, config.num_clients, config.seed):.3f}  {text}")


if __name__ == "__main__":
    main()
