# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The packages of Slurm, keyed by program."""

# Packages for Debian and Ubuntu, each with a program or library that the package contains.
PROGRAMS = {
    "/usr/sbin/munged": "munge",
    "/usr/sbin/slurmd": "slurmd",
    "/usr/bin/scontrol": "slurm-client",
    # Slurm's plugin for `srun --mpi=pmix` loads the library under this name, which only this package contains.
    "/usr/lib/*/libpmix.so": "libpmix-dev",
}
CONTROLLER_PROGRAMS = {"/usr/sbin/slurmctld": "slurmctld"}
