# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The ports that the processes of a job use to find each other."""

from __future__ import annotations

import zlib

# These ports are above those of most services and of the TLS tunnels to EFS (20049 to 20449), and below Linux's ephemeral ports
# (from 32768).
FIRST_PORT, PORT_COUNT = 20500, 11500


def port(run: str, purpose: str = "") -> int:
    """Return a port for one purpose, derived from the ID of an attempt (see `Program.run`).

    Different jobs and attempts are therefore unlikely to use the same port.
    """
    return FIRST_PORT + zlib.crc32((run + purpose).encode()) % PORT_COUNT
