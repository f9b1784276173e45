"""The server: no gradient is ever asked for."""

import numpy as np
from flwr.app import ArrayRecord
from flwr.serverapp import ServerApp

from digits_app.task import initial_arrays
from zofedht.flower import ZOFedHT

SETTINGS = {"algorithm": "zofed-shrink", "step_size": 0.05, "local_steps": 50, "batch_size": 64, "seed": 1}

app = ServerApp()


@app.main()
def main(grid, context):
    """Run all rounds and save the model."""
    result = ZOFedHT(**SETTINGS).start(grid, ArrayRecord(initial_arrays()), num_rounds=context.run_config["rounds"])
    np.savez(context.run_config["out"], *result.arrays.to_numpy_ndarrays())
    for round_, metrics in result.train_metrics_clientapp.items():
        print(f"round {round_}: loss {metrics['train_loss']:.4f} after {metrics['evaluations']:,} evaluations")
