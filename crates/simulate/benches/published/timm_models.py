"""Compares memory of timm models that nvidia-smi showed on an A100 (GPUMemNet's sheet) with simulated training.

    python crates/simulate/benches/published/timm_models.py CHECKOUT [--models 100] [--batch 32] [--ptmem PTMEM]

CHECKOUT is a clone of GPUMemNet. The Python that runs this has PyTorch and timm. Nothing is downloaded. The choices are
the defaults of timm's training script: single precision, SGD with momentum, 1,000 classes, the input size of the model.
The sheet also has the values of runs that failed, so a model counts only if its five batch sizes (8 to 128) need more
and more memory. Its models are in the order of the SHA-512 of their names. Those at even places with at most one
convolution fit one constant for context and libraries (the median difference between published and reserved), because
workspaces of cuDNN are not simulated and can only add to what was published. Those at odd places are reported.
"""

import argparse
import hashlib
import json
import re
import statistics
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
import zipfile

SHEET = "Related_works/FakeTensor/fake_tensor.xlsx"
SCHEMA = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
BATCHES = 8, 16, 32, 64, 128
MIB = 1 << 20


def published(checkout):
    """MiB by model and batch size."""
    content = subprocess.run(["git", "-C", checkout, "show", f"HEAD:{SHEET}"], capture_output=True, check=True).stdout
    with tempfile.TemporaryFile() as file:
        file.write(content)
        with zipfile.ZipFile(file) as sheet:
            texts = xml.etree.ElementTree.fromstring(sheet.read("xl/sharedStrings.xml"))
            cells = xml.etree.ElementTree.fromstring(sheet.read("xl/worksheets/sheet1.xml"))
    words = ["".join(part.text or "" for part in text.iter(SCHEMA + "t")) for text in texts]
    found = {}
    for row in cells.iter(SCHEMA + "row"):
        values = {cell.get("r")[0]: (cell.findtext(SCHEMA + "v"), cell.get("t")) for cell in row}
        name = words[int(values["A"][0])] if values.get("A", "  ")[1] == "s" else ""
        match = re.fullmatch(r"(.+)_(\d+)\.out", name)
        if match and values.get("C", [None])[0]:
            found.setdefault(match[1], {})[int(match[2])] = float(values["C"][0])
    return found


def measure(batch, names):
    """Trains each model for three steps and prints its reserved peak."""
    import timm
    import torch
    from torch.nn import functional

    for name in names:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        try:
            convolutions = train(timm, torch, functional, name, batch)
            print(json.dumps([name, torch.cuda.max_memory_reserved() / MIB, convolutions]), flush=True)
        except Exception as error:  # A release of timm lacks some models, or names them in another way.
            print(f"{name}: {type(error).__name__}: {str(error)[:150]}", file=sys.stderr)


def train(timm, torch, functional, name, batch):
    model = timm.create_model(name).cuda()
    size = model.default_cfg["input_size"]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=2e-5)
    for _ in range(3):
        inputs = torch.zeros(batch, *size, dtype=torch.uint8, device="cuda").float()
        labels = torch.zeros(batch, dtype=torch.long, device="cuda")
        optimizer.zero_grad()
        functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    return sum(isinstance(part, torch.nn.Conv2d) for part in model.modules())


def simulated(options, names):
    """Reserved MiB and the number of convolutions by model."""
    command = [options.ptmem, "simulate", "--gpu", "a100", "--memory", "40GiB", "--", sys.executable, __file__]
    command += ["--measure", str(options.batch), *names]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    rows = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("[")]
    return {name: (size, convolutions) for name, size, convolutions in rows}


def main():
    if sys.argv[1:2] == ["--measure"]:
        return measure(int(sys.argv[2]), sys.argv[3:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout")
    parser.add_argument("--models", type=int, default=100)
    parser.add_argument("--batch", type=int, default=32, choices=BATCHES)
    parser.add_argument("--ptmem", default="ptmem")
    options = parser.parse_args()
    sheet = published(options.checkout)
    sizes = {name: [found.get(batch, 0) for batch in BATCHES] for name, found in sheet.items()}
    grows = [name for name, values in sizes.items() if all(a < b for a, b in zip([0, *values], values, strict=False))]
    print(f"{len(sheet)} models, {len(grows)} need more memory with each batch size")
    names = sorted(grows, key=lambda name: hashlib.sha512(name.encode()).digest())[: options.models]
    found = simulated(options, names)
    fit = [sheet[name][options.batch] - found[name][0] for name in names[::2] if found.get(name, (0, 2))[1] < 2]
    constant = statistics.median(fit)
    print(f"constant: {constant:,.0f} MiB, the median of {len(fit)} models\n")
    print("| model | convolutions | published, MiB | reserved + constant | difference |\n|---|---|---|---|---|")
    rows = []
    for name in names[1::2]:
        if name in found:
            expected, (size, convolutions) = sheet[name][options.batch], found[name]
            difference = size + constant - expected
            rows.append((convolutions, abs(difference) / expected))
            sizes = f"{expected:,.0f} | {size + constant:,.0f} | {difference:+,.0f} ({difference / expected:+.1%})"
            print(f"| {name} | {convolutions} | {sizes} |")
    print()
    summarize("all", [error for _, error in rows])
    summarize("at most one convolution", [error for convolutions, error in rows if convolutions < 2])
    return 0


def summarize(kind, errors):
    within = sum(error <= 0.05 for error in errors)
    print(f"{kind}: {len(errors)} models, median error {statistics.median(errors):.1%}, {within} within 5 %")


if __name__ == "__main__":
    sys.exit(main())
