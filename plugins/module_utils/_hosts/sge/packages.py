# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The packages of Grid Engine, keyed by program."""

# Packages for Debian and Ubuntu, with one program of each. The packages depend on a mail server. Without esmtp-run, which has no daemon,
# the distribution would install a mail server that runs as a daemon.
PROGRAMS = {
    "/usr/sbin/munged": "munge",
    "/usr/sbin/sendmail": "esmtp-run",
    "/usr/lib/gridengine/sge_execd": "gridengine-exec",
    "/usr/lib/gridengine/qsub": "gridengine-client",
}
CONTROLLER_PROGRAMS = {"/usr/lib/gridengine/sge_qmaster": "gridengine-master"}
