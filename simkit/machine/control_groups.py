"""The control groups of this process, which limit what it may use of the machine."""

from pathlib import Path


def group_folders(controller: str, root: Path = Path("/")) -> list[Path]:
    """The folders of the groups of this process, and of those above them, for `cpu` or `memory`.

    Version 2 has one tree for all controllers, version 1 one for each, or for several together.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        lines = []
    mount = root / "sys/fs/cgroup"
    folders = [mount, *mount.glob(f"{controller}*")]  # where a container sees its own group
    for line in lines:
        _, controllers, group = line.split(":", 2)
        place = mount / controllers if controllers else mount
        if not controllers or controller in controllers.split(","):
            own = place / group.strip("/")
            folders += [own, *(above for above in own.parents if above.is_relative_to(place))]
    return folders
