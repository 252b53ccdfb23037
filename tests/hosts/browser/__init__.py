"""A real browser in a container, so that this machine needs no browser."""

from __future__ import annotations

from pathlib import Path

from local_cloud.hosts.podman import LABEL, Podman
from local_cloud.image.builder import BUILD_TIMEOUT, node_image

SOURCES = Path(__file__).parent
# Virtual time, enough to load a page and to run its scripts
PAGE_MILLISECONDS = 20_000


class Browser:
    """Headless Chromium, which uses this machine's network and can open the pages in `folder` under file:///pages."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._podman = Podman(folder / "containers.conf")
        self._podman.write_configuration()
        base = node_image(self._podman)
        self._podman.configure(base)
        self._image = f"localhost/deeplearning-browser:{base.rpartition(':')[2]}"
        self._podman(
            *("build", "--quiet", "--network=host", f"--build-arg=BASE={base}", f"--tag={self._image}", str(SOURCES)),
            timeout=BUILD_TIMEOUT,
        )

    def document(self, url: str) -> str:
        """Return a page's HTML after its scripts have run."""
        return self._podman(
            *("run", "--rm", "--network=host", f"--label={LABEL}=browser", f"--volume={self._folder}:/pages:ro", self._image),
            *("chromium-headless-shell", "--no-sandbox", "--disable-gpu", "--window-size=1600,1600"),
            *(f"--virtual-time-budget={PAGE_MILLISECONDS}", "--dump-dom", url),
        )
