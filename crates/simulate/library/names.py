#!/usr/bin/env python3
"""Writes src/names.txt: the functions of NVIDIA's libraries that PyTorch imports and that the library only answers.

    python3 crates/simulate/library/names.py [--add] PLACE...

A PLACE is a wheel of PyTorch, or a folder that one is installed in (site-packages): the functions that it imports are
listed. Or a wheel of one of NVIDIA's libraries (nvidia_*.whl): the functions that it exports are, since other
extensions import more than PyTorch does. Names that src defines by hand are left out. With --add, the names that
src/names.txt has already are kept: a release that is not at hand stays served. Needs nm (binutils).
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIST = HERE / "src" / "names.txt"
# Variants for a default stream of each thread, and functions for graphics.
LEFT_OUT = re.compile(r"_pts[zd]$|_pt(ds|sz)$|EGL|GLRegister|cudaGL|VDPAU|cuGL")
CUDA = re.compile(
    r"(cuda[A-Z]|__cuda|cu[A-Z]|cublas|cudnn|cusparse|cusolver|cufft|curand|nccl[A-Z]|nvrtc|cupti|nvtx|nvshmem|nvml"
    r"|cuFile|nvJitLink)\w*$"
)
# A function with one of these names returns a result that cannot be known; the others compute or set something.
ASKS = re.compile(
    r"Get|[bB]ufferSize|_bufferSize|Query|EnumEvents|ReadEvent|Version|version|_ptr$|_malloc|_n_pes|init_status"
)
# The first argument of these is a place for a handle.
MAKES = re.compile(r"Create|Alloc$")
# These share memory or divide a device, which is not supported.
REFUSES = re.compile(r"^cuMulticast|GreenCtx|^cuDev(Resource|SmResource)|DevResource$|ShareableHandle$")
DESTROYS = re.compile(r"Destroy|Free")


def symbols(library: Path, which: str) -> set[str]:
    listing = subprocess.run(["nm", "-D", which, str(library)], stdout=subprocess.PIPE, text=True, check=True)
    return {line.split()[-1].partition("@")[0] for line in listing.stdout.splitlines()}


def libraries(place: Path, folder: Path) -> Iterator[Path]:
    if place.is_dir():
        yield from place.glob("torch/lib/*.so*")
        yield from place.glob("lib/*.so*")
        return
    with zipfile.ZipFile(place) as wheel:
        for member in wheel.namelist():
            if re.match(r"torch/lib/[^/]*\.so", member):
                yield Path(wheel.extract(member, folder))


def exported(wheel: Path) -> set[str]:
    """Public functions of the libraries in a wheel of NVIDIA's."""
    names: set[str] = set()
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as members:
        for member in members.namelist():
            if re.search(r"/lib/[^/]*\.so[.\d]*$", member):
                names |= symbols(Path(members.extract(member, folder)), "--defined-only")
    return {name for name in names if CUDA.match(name)}


def imported(places: Iterable[Path]) -> set[str]:
    names: set[str] = set()
    for place in places:
        with tempfile.TemporaryDirectory() as folder:
            wanted: set[str] = set()
            defined: set[str] = set()
            for library in libraries(place, Path(folder)):
                wanted |= symbols(library, "--undefined-only")
                defined |= symbols(library, "--defined-only")
        if not wanted:
            sys.exit(f"names.py: {place}: has no torch/lib/*.so; expected a wheel of PyTorch or a site-packages folder")
        names |= {name for name in wanted - defined if CUDA.match(name)}
    return names


def by_hand() -> set[str]:
    sources = (path.read_text() for path in (HERE / "src").rglob("*.rs"))
    names: set[str] = set()
    for source in sources:
        names |= set(re.findall(r'extern "C" fn (\w+)', source))
        names |= set(re.findall(r"(?m)^    (\w+)\([^=]*\) = ", source))
        # Lists of names that a macro of the file exports.
        for listed in re.findall(r"(?ms)^\w+!\((.*?)\);", source):
            names |= set(re.findall(r"\w+", listed))
    return names


def kind(name: str) -> str:
    if REFUSES.search(name):
        return "Refuses"
    if MAKES.search(name) and not DESTROYS.search(name):
        return "Makes"
    return "Asks" if ASKS.search(name) else "Done"


def main() -> None:
    arguments = sys.argv[1:]
    keep = "--add" in arguments
    places = [Path(argument) for argument in arguments if argument != "--add"]
    if not places:
        sys.exit(__doc__)
    of_nvidia = [place for place in places if place.name.startswith("nvidia_")]
    names = imported(place for place in places if place not in of_nvidia).union(*map(exported, of_nvidia))
    if keep:
        names |= set(re.findall(r"(?m)^(?:Done|Makes|Asks|Refuses) (\w+)$", LIST.read_text()))
    lines = [f"{kind(name)} {name}\n" for name in sorted(names - by_hand()) if not LEFT_OUT.search(name)]
    LIST.write_text("".join(lines))
    print(f"{LIST}: {len(lines)} names")


if __name__ == "__main__":
    main()
