"""The command line: parse, call, print."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from mixlab import MixlabError

app = typer.Typer(
    name="mixlab",
    help="When a vision-language model scores below its text reference: what was lost, and why?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
testbed = typer.Typer(help="A small world with known truth, built here.", no_args_is_help=True)
mix = typer.Typer(help="Data mixes.", no_args_is_help=True)
app.add_typer(testbed, name="testbed")
app.add_typer(mix, name="mix")


@app.command()
def sweep(
    file: Annotated[Path, typer.Argument(help="The sweep file.")],
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Change one value: a.b=c. May be repeated.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The study's folder [studies/NAME].")] = None,
    trials: Annotated[
        int | None, typer.Option(help="How many recipes the sampler chooses.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes [one a core, at most 2]. Results do not change.")
    ] = None,
    new: Annotated[bool, typer.Option(help="Start beside an existing study.")] = False,
) -> None:
    """Compare data mixes: train, score, merge, report. Started again, it goes on where it was.

    Example: mixlab sweep sweeps/text_ratio.yaml --set arm.steps=100 --trials 4
    """
    from mixlab.study import run_sweep, summary

    result = run_sweep(file, overrides=set_ or [], out=out, trials=trials, workers=workers, new=new)
    typer.echo(summary(result))


@app.command()
def report(
    study: Annotated[Path, typer.Argument(help="A study's folder, such as studies/text-ratio.")],
    out: Annotated[Path | None, typer.Option(help="The page [STUDY/report.html].")] = None,
) -> None:
    """Write a study's page anew from its tables.

    Example: mixlab report studies/text-ratio --out page.html
    """
    from mixlab.report import build_report

    typer.echo(f"Report: {build_report(study, out)}")


@testbed.command()
def build(
    size: Annotated[str, typer.Option(help="default (minutes) or micro (seconds).")] = "default",
    seed: Annotated[int, typer.Option(help="Of the world and the first weights.")] = 0,
    root: Annotated[Path | None, typer.Option(help="Where testbeds are kept [the cache].")] = None,
) -> None:
    """Build the testbed: a reference LM and an aligned VLM of about 1M parameters.

    Example: mixlab testbed build --size micro
    """
    from mixlab.study import Stages
    from mixlab.testbed import build as build_testbed

    typer.echo(f"Testbed: {build_testbed(root, size, seed, Stages()).path}")


@testbed.command()
def arm(
    out: Annotated[Path, typer.Option(help="The arm's folder.")] = Path("studies/long-vision-arm"),
    steps: Annotated[int, typer.Option(help="Optimizer steps.")] = 2000,
    pair: Annotated[str, typer.Option(help="A built-in pair.")] = "testbed",
) -> None:
    """Train one long arm on images alone, and say how well it sees.

    Example: mixlab testbed arm --steps 2000
    """
    from mixlab.study import long_arm

    typer.echo(long_arm(out, steps=steps, pair=pair))


@mix.command()
def show(
    file: Annotated[Path, typer.Argument(help="The mix, such as data_mixes/testbed.yaml.")],
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Change one value: a.b=c. May be repeated.")
    ] = None,
    pair: Annotated[str, typer.Option(help="Pair whose tokenizer counts.")] = "testbed",
    steps: Annotated[int, typer.Option(help="Optimizer steps.")] = 100,
    tokens: Annotated[int, typer.Option(help="Supervised tokens a step.")] = 512,
    seed: Annotated[int, typer.Option(help="Of the order of rows.")] = 0,
) -> None:
    """Show what a mix would train on: shares asked for and realised, digest, sample rows.

    Example: mixlab mix show data_mixes/testbed.yaml --set text_fraction=0.25
    """
    from mixlab.study import show_mix

    typer.echo(
        show_mix(file, overrides=set_ or [], pair=pair, steps=steps, tokens=tokens, seed=seed)
    )


def main() -> None:
    """Entry point: a mistake that the user can mend is one message and exit code 2."""
    try:
        app()
    except MixlabError as error:
        print(f"mixlab: {error}", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        if error.filename is None:
            raise
        print(
            f"mixlab: {error.filename}: {error.strerror}. Check that the path exists, is of the "
            "right kind, and that you may read and write it.",
            file=sys.stderr,
        )
        sys.exit(2)


if __name__ == "__main__":
    main()
