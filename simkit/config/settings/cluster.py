"""The section `cluster`."""

import re
from typing import Annotated, Any

from pydantic import Field

from simkit.config.settings.values import Section, checked, plain_number, wrong
from simkit.suggestions import shown

LOCAL = re.compile(r"local:([1-9][0-9]*)")
ADDRESS = re.compile(r"(tcp|tls|ws|wss)://[^\s:/]+:[0-9]+")
MOST_LOCAL = 1024


def _address(value: Any) -> str:
    local = LOCAL.fullmatch(value) if isinstance(value, str) else None
    if local and int(local[1]) > MOST_LOCAL:
        raise wrong(f"must start at most {MOST_LOCAL} processes, got {shown(value)}")
    if not local and not (isinstance(value, str) and ADDRESS.fullmatch(value)):
        raise wrong(
            "must be the address of a scheduler of Dask such as tcp://10.0.0.7:8786, or local:4 for four "
            f"processes on this machine, got {shown(value)}"
        )
    return value


def _seconds(value: Any) -> float:
    seconds = plain_number(value)
    if seconds <= 0:
        raise wrong(f"must be > 0, got {shown(value)}")
    return seconds


class Cluster(Section):
    """Where the paths of an ensemble are simulated in place of this process."""

    address: Annotated[
        str, *checked(_address, {"type": "string", "pattern": f"^({LOCAL.pattern}|{ADDRESS.pattern})$"})
    ] = Field(
        description="The scheduler of a cluster of Dask, or `local:N` for N processes on this machine.",
        examples=["tcp://10.0.0.7:8786", "local:4"],
    )
    timeout: Annotated[float, *checked(_seconds, {"type": "number", "exclusiveMinimum": 0})] = Field(
        30.0, description="Seconds to wait for the scheduler, and for a first worker.", examples=[300]
    )
    mixed: bool = Field(
        False,
        description="Accept workers with other versions of simkit, jax or jaxlib, another back end or "
        "another type of processor: results may then differ in their last bits.",
    )
