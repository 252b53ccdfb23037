# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The errors that a host raises if it cannot run a job. This code also runs on hosts without Ansible."""


class RefusalError(Exception):
    """This host cannot run the job. The message states the reason and the remedy."""


EXPECTED = (RefusalError, ValueError)
