"""The command line: parse, call, print."""

import atexit
import gc
import io
import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

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
backbone = typer.Typer(help="The language model inside a VLM.", no_args_is_help=True)
app.add_typer(testbed, name="testbed")
app.add_typer(mix, name="mix")
app.add_typer(backbone, name="backbone")

# Options that several commands have.
Changes = Annotated[
    list[str] | None, typer.Option("--set", help="Change one value: a.b=c. May be repeated.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done; write nothing.")]
VerifyAfter = Annotated[
    bool, typer.Option("--verify", help="Then compare all tensors again; load it.")
]
Threads = Annotated[int | None, typer.Option(help="Of computation [one a core, at most 8].")]
Link = Annotated[
    bool, typer.Option("--link", help="Hard-link unchanged files (an edit of one edits both).")
]
AllowNonfinite = Annotated[
    bool, typer.Option("--allow-nonfinite", help="Count NaN and infinity; do not stop.")
]


@app.command()
def sweep(
    file: Annotated[Path, typer.Argument(help="The sweep file.")],
    set_: Changes = None,
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


@app.command()
def merge(
    recipe: Annotated[
        str | None, typer.Argument(help="A YAML file, mixlab's or mergekit's, or a name of --list.")
    ] = None,
    out: Annotated[Path | None, typer.Argument(help="The new model's folder.")] = None,
    vlm: Annotated[
        str | None, typer.Option(help="Without RECIPE: the VLM whose language model is merged.")
    ] = None,
    reference: Annotated[
        str | None, typer.Option(help="Without RECIPE: the language model to merge it with.")
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(help="Weight of the VLM: 1 leaves it, 0 is the reference.")
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="Without RECIPE: one of --list [wise_ft].")
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="Fill a recipe's placeholder: vlm=DIR. Repeatable.")
    ] = None,
    set_: Changes = None,
    seed: Annotated[int | None, typer.Option(help="Of random methods [the recipe's].")] = None,
    dry_run: DryRun = False,
    full: Annotated[
        bool, typer.Option("--full", help="With --dry-run: a line for every tensor.")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Then compute 16 tensors again and compare; load it.")
    ] = False,
    verify_all: Annotated[
        bool, typer.Option("--verify-all", help="The same with all tensors.")
    ] = False,
    threads: Threads = None,
    max_shard_size: Annotated[
        str | None, typer.Option(help="Of output files, such as 5GB [files as the target's].")
    ] = None,
    link: Link = False,
    allow_nonfinite: AllowNonfinite = False,
    list_: Annotated[
        bool, typer.Option("--list", help="Show packaged recipes and methods.")
    ] = False,
) -> None:
    """Merge models into a new folder, after a recipe; or a VLM with its reference, in one line.

    Example: mixlab merge audit-ties-0.2 merged --model vlm=DIR --model reference=DIR --verify

    Example: mixlab merge merged --vlm DIR --reference DIR --alpha 0.7
    """
    with _kept_for_good():
        from mixlab.merge import (
            MergeDisplay,
            list_merges,
            merge_checkpoints,
            pair_recipe,
            preview_merge,
        )

    models = _pairs(model or [])
    asked: str | dict[str, Any] | None = recipe
    if vlm is not None and reference is not None:
        _import_transformers()
        asked, out = pair_recipe(vlm, reference, alpha=alpha, method=method), _only(recipe, out)
    elif vlm or reference or alpha is not None or method:
        raise MixlabError("--vlm and --reference go together, and --alpha and --method with them")
    if list_:
        typer.echo(list_merges())
    elif asked is None or (out is None and not dry_run):
        raise MixlabError("expected RECIPE and OUT; see mixlab merge --help, or --list for recipes")
    elif dry_run:
        typer.echo(
            preview_merge(
                asked,
                out,
                models=models,
                overrides=set_ or [],
                seed=seed,
                threads=threads,
                max_shard_size=max_shard_size,
                link=link,
                full=full,
            )
        )
    else:
        assert out is not None
        with MergeDisplay() as display, _interruptible(f"nothing was written to {out}"):
            result = merge_checkpoints(
                asked,
                out,
                models=models,
                overrides=set_ or [],
                seed=seed,
                threads=threads,
                max_shard_size=max_shard_size,
                progress=display,
                allow_nonfinite=allow_nonfinite,
                link=link,
                check="all" if verify_all else 16 if verify else None,
            )
        typer.echo("\n".join(result.lines()))


@app.command()
def verify(
    out: Annotated[Path, typer.Argument(help="A folder that mixlab merge made.")],
    all_: Annotated[
        bool, typer.Option("--all", help="Compute every tensor again, not a sample.")
    ] = False,
    sample: Annotated[
        int, typer.Option(min=1, help="How many mixed and how many kept tensors.")
    ] = 16,
    seed: Annotated[int, typer.Option(help="Chooses the sample.")] = 0,
    model: Annotated[
        list[str] | None,
        typer.Option(help="An input that moved: NAME=DIR, NAME as in the recipe. Repeatable."),
    ] = None,
    threads: Threads = None,
) -> None:
    """Compute tensors of a finished merge again from its inputs, and compare bit for bit.

    Then load it with transformers, without memory. Exit code 1: tensors differ, or it does not
    load; 2: it could not be checked. Of a mergekit file of several documents, the earlier ones'
    outputs are made again beside OUT and removed.

    Example: mixlab verify merged --all --model models/base=/mnt/base
    """
    with _kept_for_good():
        from mixlab.merge import MergeDisplay, VerifyError, verify_merge

    try:
        with MergeDisplay() as display, _interruptible(f"{out} was not changed"):
            report = verify_merge(
                out,
                models=_pairs(model or []),
                sample="all" if all_ else sample,
                seed=seed,
                threads=threads,
                progress=display,
            )
    except VerifyError as error:
        for name, told in error.tensors.items():
            typer.echo(f"{name}: {told}")
        typer.echo(f"mixlab: {error}", err=True)
        raise typer.Exit(1) from None
    typer.echo("\n".join(report.lines()))


@contextmanager
def _kept_for_good() -> Iterator[None]:
    """What is imported here lives as long as the process, so garbage is not looked for in it.

    Python would do so while torch is imported and again at exit: a third of the start-up.

    While Python ends, Ctrl-C just ends the process: the merge is finished, and a traceback out of
    torch's cleaning up would say otherwise.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_DFL)
        if collecting:
            gc.enable()


def _import_transformers() -> None:
    """Where it will be needed: a second quicker here than later."""
    with _kept_for_good():
        import transformers.generation.utils  # noqa: F401


@contextmanager
def _interruptible(told: str) -> Iterator[None]:
    """Ctrl-C is one sentence and exit code 130; so are SIGTERM and SIGHUP, with theirs.

    By default those two would end the process at once and leave unfinished files for the next start
    to clean.

    Args:
        told: what the user should know, unless the interrupt itself says more.
    """
    received = signal.SIGINT

    def stop(number: int, _: object) -> None:
        nonlocal received
        received = signal.Signals(number)
        raise KeyboardInterrupt

    before = {
        number: signal.signal(number, stop)
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is signal.SIG_DFL
    }
    try:
        yield
    except KeyboardInterrupt as error:
        typer.echo(f"mixlab: stopped; {str(error) or told}", err=True)
        raise typer.Exit(128 + received) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _only(first: str | None, second: Path | None) -> Path | None:
    """The output, where no recipe is given before it."""
    if second is not None:
        raise MixlabError(
            f"{first} beside --vlm and --reference: give the output alone; in a recipe fill its "
            "placeholders with --model vlm=DIR --model reference=DIR"
        )
    return None if first is None else Path(first)


def _pairs(models: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for given in models:
        name, equals, value = given.partition("=")
        if not (name and equals and value):
            raise MixlabError(f"--model {given}: expected NAME=DIR, such as vlm=models/my-vlm")
        if found.setdefault(name, value) != value:
            raise MixlabError(f"--model {given}: {name} is {found[name]} already; give it once")
    return found


@app.command()
def lineage(
    vlm: Annotated[Path, typer.Argument(help="The VLM's folder (or a language model's).")],
    references: Annotated[
        list[Path], typer.Argument(help="Folders of one or more language models.")
    ],
    json_: Annotated[
        bool, typer.Option("--json", help="Print all of it as JSON, and nothing else.")
    ] = False,
) -> None:
    """Say what each reference is to a VLM: ancestor, sibling, stranger, or related somehow.

    Weights decide; names and cards are printed beside. A full change of one pair looks the same
    from both ends: give more references (the base, an instruct model), and the triangle tells.

    Verdicts: same; ancestor (the VLM was trained from it); earlier ancestor (through another);
    sibling (of one base, trained apart); descendant (of two text models); related, direction
    unknown; related, neurons permuted; stranger.

    Example: mixlab lineage models/my-vlm models/base models/instruct
    """
    from mixlab.probe import find_lineage, lineage_text, tell_progress

    with _interruptible("nothing was written"):
        found = find_lineage(vlm, references, progress=tell_progress)
    typer.echo(json.dumps(found.as_dict(), indent=2) if json_ else lineage_text(found))


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
    set_: Changes = None,
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


@backbone.command()
def extract(
    vlm: Annotated[str, typer.Argument(help="The VLM's folder.")],
    out: Annotated[Path, typer.Argument(help="The language model's folder, a new one.")],
    reference: Annotated[
        str | None, typer.Option(help="A language model's folder: written in its class.")
    ] = None,
    dry_run: DryRun = False,
    verify: VerifyAfter = False,
    threads: Threads = None,
    max_shard_size: Annotated[
        str | None, typer.Option(help="Of output files, such as 5GB [5GB].")
    ] = None,
    allow_nonfinite: AllowNonfinite = False,
) -> None:
    """Write the language model inside a VLM as a stand-alone one, with its own embeddings.

    Example: mixlab backbone extract models/my-vlm models/my-vlm-backbone
    """
    _import_transformers()
    with _kept_for_good():
        from mixlab.merge import MergeDisplay, extract_checkpoint, preview_backbone

    if dry_run:
        typer.echo(preview_backbone(vlm, out, reference=reference))
        return
    with MergeDisplay() as display, _interruptible(f"nothing was written to {out}"):
        result = extract_checkpoint(
            vlm,
            out,
            reference=reference,
            threads=threads,
            max_shard_size=max_shard_size,
            progress=display,
            allow_nonfinite=allow_nonfinite,
            check="all" if verify else None,
        )
    typer.echo("\n".join(result.lines()))


@backbone.command()
def splice(
    vlm: Annotated[str, typer.Argument(help="The VLM's folder.")],
    lm: Annotated[str, typer.Argument(help="The language model that is put into it.")],
    out: Annotated[Path, typer.Argument(help="The new VLM's folder.")],
    dry_run: DryRun = False,
    verify: VerifyAfter = False,
    threads: Threads = None,
    max_shard_size: Annotated[
        str | None, typer.Option(help="Of output files, such as 5GB [files as the VLM's].")
    ] = None,
    link: Link = False,
    allow_nonfinite: AllowNonfinite = False,
) -> None:
    """Write a VLM with another language model in the place of its own; all else stays.

    Example: mixlab backbone splice models/my-vlm models/tuned-backbone models/my-vlm-2
    """
    _import_transformers()
    with _kept_for_good():
        from mixlab.merge import MergeDisplay, preview_backbone, splice_checkpoint

    if dry_run:
        typer.echo(preview_backbone(vlm, out, lm=lm))
        return
    with MergeDisplay() as display, _interruptible(f"nothing was written to {out}"):
        result = splice_checkpoint(
            vlm,
            lm,
            out,
            threads=threads,
            max_shard_size=max_shard_size,
            progress=display,
            allow_nonfinite=allow_nonfinite,
            link=link,
            check="all" if verify else None,
        )
    typer.echo("\n".join(result.lines()))


def main() -> None:
    """Entry point: a mistake that the user can mend is one message and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Names of files may hold what the terminal's encoding has no characters for.
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except MixlabError as error:
        print(f"mixlab: {error}", file=sys.stderr)
        sys.exit(2)
    except MemoryError:
        print(
            "mixlab: out of memory. Give it fewer threads or processes, or a machine with more.",
            file=sys.stderr,
        )
        sys.exit(2)
    except OSError as error:
        if error.filename is None and error.strerror is None:
            raise
        print(
            f"mixlab: {error.strerror}. Is the disk or the network that a path lies on in order?"
            if error.filename is None
            else f"mixlab: {error.filename}: {error.strerror}. Check that the path exists, is of "
            "the right kind, and that you may read and write it.",
            file=sys.stderr,
        )
        sys.exit(2)


if __name__ == "__main__":
    main()
