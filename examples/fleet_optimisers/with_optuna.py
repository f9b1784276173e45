"""Optuna: a study whose trials are points; the parameters have the houses' names."""

from __future__ import annotations

import houses
import optuna


def main() -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with houses.local() as fleet:

        def trial_cost(trial: optuna.Trial) -> float:
            ends = zip(fleet.names, fleet.bounds, strict=True)
            return fleet([trial.suggest_float(name, low, high) for name, (low, high) in ends])

        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1, multivariate=True))
        study.enqueue_trial(dict(zip(fleet.names, fleet.x0, strict=True)))
        study.optimize(trial_cost, n_trials=100)
        print(f"optuna: {study.best_value:.3f} a day after {fleet.evaluations} site evaluations")
        houses.show(fleet)


if __name__ == "__main__":
    main()
