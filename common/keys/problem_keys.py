"""Keys that say what is minimised: the data, its parts and the objective."""

from __future__ import annotations

import math
from dataclasses import dataclass

from zofedht.common.choices import CSV_HEADERS, MODELS, PARTITIONS, SVMLIGHT_INDICES
from zofedht.common.keys.declaration import key
from zofedht.common.rules import at_least, between, columns, labels, one_of, positive, preprocessing, space_rows

__all__ = ["ProblemKeys"]


@dataclass(frozen=True)
class ProblemKeys:
    """Data and objective."""

    dataset: str = key(
        "digits",
        "data set by name (digits, mnist, fashion-mnist, rcv1), a file's path, or clients: all have their own rows",
    )
    data_dir: str = key("", "folder of the large sets; empty: the user's cache folder", unit="path")
    train_rows: int = key(0, "random subset of the training rows; 0: all", unit="rows", rule=at_least(0))
    positive_labels: str = key(
        "auto", "labels of class 1, such as `5-9`, `1,3` or `yes`; auto: 5-9, or the larger of two", rule=labels()
    )
    label_column: str = key(
        "auto",
        "column of a table that holds the labels, a name or a number from 1; auto: label, target, y, or the last",
    )
    features: str = key(
        "auto", "columns of a table in their order, as `heat,flow`, or how many there are; auto: all but the label"
    )
    csv_header: str = key(
        "auto",
        "whether the first line of a table names its columns; auto: where that is certain",
        rule=one_of(CSV_HEADERS),
    )
    svmlight_indices: str = key(
        "auto",
        "first index of svmlight files; auto: from 0 where a file of the run has a 0",
        rule=one_of(SVMLIGHT_INDICES),
    )
    preprocess: str = key(
        "bias,unit-norm",
        "transforms in order: standardize (columns), bias (a column of ones), unit-norm (rows), or none",
        rule=preprocessing(),
    )
    standardize_by: str = key(
        "auto",
        "mean:deviation of each column that standardize takes, as `14.1:3.5,0:1`; auto: those of all training rows",
        rule=columns(),
    )
    partition: str = key("iid", "how rows are dealt to clients", rule=one_of(PARTITIONS))
    dirichlet_alpha: float = key(0.5, "concentration of the dirichlet partition", rule=positive())
    model: str = key("logistic", "built-in objective", rule=one_of(MODELS))
    hidden_units: int = key(50, "width of the mlp's hidden layer", unit="units", rule=at_least(1, 10**6))
    mlp_bias: bool = key(False, "whether both layers of the mlp have biases")
    l2: float = key(0.0, "adds l2/2 |w|^2 to a built-in objective", rule=at_least(0.0, math.inf))
    objective: str = key("", "your own objective as `module:factory`; replaces dataset and model")
    parameters: str = key(
        "",
        "named parameters of your objective: a table of ranges by name, or the same as JSON; empty: what the objective"
        " declares",
        rule=space_rows(),
    )
    in_place: bool = key(
        False,
        "whether clients hold the parameters and change them in place (InPlaceObjective); the server then has no x, but"
        " the mean step lengths that lead to it",
        rule=between(0, 1),
    )
