"""Compare trained settings with the factory's, on the devices of the training and on others."""

from __future__ import annotations

import argparse

import numpy as np
from fleet import FACTORY, NAMES, NEW, Device, wear

from zofedht import load_run


def mean_cost(devices: list[Device], settings: np.ndarray) -> float:
    return float(np.mean([device.value(settings, slice(None)) for device in devices]))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", help="result folder of the run")
    run = load_run(arguments.parse_args().folder)
    factory = np.array(FACTORY)
    strange = [Device(wear(run.config.seed, number), 1000 * number) for number in range(100, 120)]
    trained = [Device(wear(run.config.seed, number), 1000 * number) for number in range(run.config.num_clients)]
    for name, settings in (("factory", dict(zip(NAMES, FACTORY, strict=True))), ("tuned", run.settings)):
        print(f"{name:8}" + "  ".join(f"{key} {value:.3g}" for key, value in settings.items()))
    print("mean cost  settings on devices")
    for kind, devices in (("tuned on", trained), ("never seen", strange), ("as new", [Device(NEW)])):
        print(f"{mean_cost(devices, factory):9.3f}  factory settings on devices {kind}")
        print(f"{mean_cost(devices, run.x):9.3f}  tuned settings on devices {kind}")


if __name__ == "__main__":
    main()
