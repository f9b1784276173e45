"""A closed model behind HTTP: it reads handwritten digits and gives scores only.

    python model_server.py [--port 0] [--fail-every 40] [--url-file model.url]

    POST /score  {"inputs": [[64 pixels, 0 dark to 1 bright], ...]}  ->  {"scores": [[10 log-probabilities], ...]}

A hosted model. Others trained it on their own data: clean scans, the half of scikit-learn's digits that no
client has. Its weights stay here. Now and then it is too busy and answers 503. It listens on loopback only.
"""

from __future__ import annotations

import argparse
import itertools
import json
import signal
import sys
import warnings
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier


def train() -> MLPClassifier:
    digits = load_digits()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # 60 passes are enough here
        return MLPClassifier(64, max_iter=60, random_state=0).fit(digits.data[::2] / 16.0, digits.target[::2])


class Service(BaseHTTPRequestHandler):
    """One request; ``model``, ``fail_every`` and ``calls`` are set before the first."""

    model: MLPClassifier
    fail_every: int
    calls = itertools.count(1)

    def do_POST(self) -> None:  # the name that http.server asks for
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path != "/score":
            return self.say(404, {"error": "there is only /score"})
        if self.fail_every and next(self.calls) % self.fail_every == 0:
            return self.say(503, {"error": "too busy, try again later"})
        try:
            inputs = np.array(json.loads(body)["inputs"], dtype=np.float64)
            with np.errstate(divide="ignore"):
                scores = np.maximum(self.model.predict_log_proba(inputs), -50.0)  # log 0 is no JSON
        except (KeyError, TypeError, ValueError) as error:
            return self.say(400, {"error": f"inputs must be rows of 64 numbers: {error}"})
        return self.say(200, {"scores": scores.tolist()})

    def say(self, code: int, answer: dict[str, Any]) -> None:
        text = json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing for each request."""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--port", type=int, default=0, help="0: any free port")
    arguments.add_argument("--fail-every", type=int, default=40, help="answer every N-th request with 503; 0: never")
    arguments.add_argument("--url-file", type=Path, default=Path("model.url"), help="file for the address")
    given = arguments.parse_args()
    Service.model, Service.fail_every = train(), given.fail_every
    unseen = load_digits()
    right = Service.model.score(unseen.data[1::2] / 16.0, unseen.target[1::2])
    print(f"the model is right on {right:.1%} of clean scans that it has not learned", file=sys.stderr)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with ThreadingHTTPServer(("127.0.0.1", given.port), Service) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        given.url_file.write_text(url)
        print(f"the model answers at {url}/score", file=sys.stderr, flush=True)
        try:
            server.serve_forever()
        finally:
            given.url_file.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
