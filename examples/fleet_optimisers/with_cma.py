"""pycma: a generation is one batch of questions. ``--address`` takes houses that have joined; else five are here."""

from __future__ import annotations

import argparse

import cma
import houses

from zofedht import BudgetError, Fleet


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", help="HOST:PORT to listen on for houses on a network")
    parser.add_argument("--tls-dir", help="folder of the server's certificates; plain text without it")
    parser.add_argument("--folder", help="where answers are kept, so that the program can be killed")
    given = parser.parse_args()
    if given.address is None:
        fleet = houses.local(given.folder, budget=2000)
    else:
        insecure = given.tls_dir is None
        fleet = Fleet(
            given.address, tls_dir=given.tls_dir, insecure=insecure, min_clients=5, folder=given.folder, budget=2000
        )
    with fleet:
        lower, upper = zip(*fleet.bounds, strict=True)
        options = {"bounds": [lower, upper], "CMA_stds": fleet.scale, "seed": 1, "verbose": -9}
        search = cma.CMAEvolutionStrategy(fleet.x0, 1.0, options)
        try:
            while not search.stop() and fleet.evaluations < 1900:
                points = search.ask()
                search.tell(points, fleet.many(points).tolist())
        except BudgetError:
            pass
        houses.show(fleet)


if __name__ == "__main__":
    main()
