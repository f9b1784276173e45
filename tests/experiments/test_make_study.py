"""What `make study` runs is what the commands understand, and it ends in one page."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from zofedht.experiments.cli import parser

ROOT = Path(__file__).resolve().parents[2]


def commands(*variables: str) -> list[list[str]]:
    make = shutil.which("make")
    if make is None:
        pytest.skip("make is not installed")
    done = subprocess.run(
        [make, "--dry-run", "study", *variables], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found = re.findall(r"-m zofedht.experiments (.*?)(?= \|\| |; |$)", done.stdout, flags=re.MULTILINE)
    presets = ("authors", "paper")
    return [
        line.replace("$preset", name).split() for line in found for name in presets if "$" in line or name == "paper"
    ]


@pytest.mark.parametrize("quick", [[], ["QUICK=--quick"]])
def test_every_command_of_the_studies_is_understood(quick: list[str]):
    read = [parser().parse_args(line) for line in commands("DATA=sets", "STUDY=s", *quick)]
    assert [args.command for args in read[:2]] == ["table1", "theory"]
    studies = [args for args in read if args.command == "study"]
    assert {args.preset for args in studies} == {"authors", "paper"}
    assert all(args.quick == bool(quick) for args in studies)
    assert {args.data_dir for args in studies} == {Path("sets")}
    assert read[-1].command == "report"
    assert set(read[-1].folders) == {args.out for args in studies}  # nothing is run that the page does not show
    assert {path.parent for path in read[-1].folders} == {read[-1].out.parent} == {Path("s")}


def test_the_report_goes_into_a_page_on_demand():
    assert parser().parse_args(commands("PAGE=docs/reproduction.md")[-1]).page == Path("docs/reproduction.md")
    assert parser().parse_args(commands()[-1]).page is None
