"""Where the names that a sweep file gives are looked up, whatever the working directory."""

from pathlib import Path

from mixlab import MixlabError


def places(*files: Path) -> list[Path]:
    """The working directory, then for each file its own folder and the one above it."""
    found = [Path(), *(folder for file in files for folder in (file.parent, file.parent.parent))]
    return list({folder.resolve(): folder for folder in found}.values())


def find_file(name: str, sweep: Path) -> Path:
    """A file that a sweep file names: as it stands, or beside the sweep file, or one folder up.

    Raises:
        MixlabError: it is in none of these places.
    """
    searched = places(sweep)
    for place in searched:
        if (place / name).is_file():
            return (place / name).resolve()
    shown = ", ".join(str(place.resolve()) for place in searched)
    raise MixlabError(
        f"{sweep} names the file {name!r}, which is in none of {shown}; correct the path"
    )


def find_folder(name: str, sweep: Path) -> str:
    """A model folder that a sweep file names, looked up likewise; other names as they are."""
    for place in places(sweep):
        if (place / name / "config.json").is_file():
            return str((place / name).resolve())
    return name
