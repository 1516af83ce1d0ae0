"""Timing in turns: what runs on the machine besides us then disturbs every side alike."""

import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Times:
    """Seconds of every repetition of one side, in the order they were taken."""

    cpu: list[float]
    wall: list[float]


def in_turns(
    sides: Mapping[str, Callable[[], object]],
    repeats: int,
    warmup: int = 1,
    seed: int = 1,
    synchronize: Callable[[], None] | None = None,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Times]:
    """Run every side once a round, in an order drawn anew, ``repeats`` rounds.

    ``cpu`` is the time of this process on all its threads (also while it waits for a GPU in a busy
    loop), ``wall`` the time on the clock.
    """
    order = random.Random(seed)
    times = {name: Times([], []) for name in sides}
    for number in range(warmup + repeats):
        names = list(sides)
        order.shuffle(names)
        for name in names:
            if synchronize:
                synchronize()
            cpu, wall = time.process_time(), time.perf_counter()
            sides[name]()
            if synchronize:
                synchronize()
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            if number >= warmup:
                times[name].cpu.append(cpu)
                times[name].wall.append(wall)
        if progress:
            progress(number)
    return times


def spread(values: list[float]) -> dict[str, float]:
    """Median, lower and upper quartile, and extremes."""
    ordered = sorted(values)
    if len(ordered) > 1:
        low, middle, high = statistics.quantiles(ordered, n=4, method="inclusive")
    else:
        low = middle = high = ordered[0]
    return {
        "median": middle,
        "q1": low,
        "q3": high,
        "min": ordered[0],
        "max": ordered[-1],
        "n": len(ordered),
    }


def ratios(over: list[float], under: list[float]) -> dict[str, float]:
    """Spread of the quotient taken round by round: a slow round slows both of its sides."""
    return spread([a / b for a, b in zip(over, under)])


def summary(times: Mapping[str, Times], reference: str) -> dict[str, dict[str, dict[str, float]]]:
    """Per side: spreads of ``cpu`` and ``wall`` in seconds, and of the reference's time over its
    own (``cpu_speedup``, ``wall_speedup``: above 1 is faster than the reference)."""
    result = {}
    for name, taken in times.items():
        result[name] = {
            "cpu": spread(taken.cpu),
            "wall": spread(taken.wall),
            "cpu_speedup": ratios(times[reference].cpu, taken.cpu),
            "wall_speedup": ratios(times[reference].wall, taken.wall),
        }
    return result


def conditions(device: str = "cpu") -> dict[str, object]:
    """What a reader must know to judge the numbers: versions, processor, threads, load."""
    import os
    import platform

    import fairseq

    found = {
        "torch": torch.__version__,
        "fairseq": getattr(fairseq, "__version__", "unknown"),
        "python": platform.python_version(),
        "processor": processor(),
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "device": device,
    }
    if hasattr(os, "getloadavg"):
        found["load"] = os.getloadavg()[0]
    if device.startswith("cuda"):
        found["gpu"] = torch.cuda.get_device_name(device)
    return found


def processor() -> str:
    """The processor's name as the system gives it."""
    import platform

    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
