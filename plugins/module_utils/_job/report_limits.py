# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The limits of a report on a job: hosts keep within them, and the controller refuses a report that exceeds them."""

# A curve has at most twice this number of points. Charts are not wide enough, in pixels, to show more points.
POINTS = 500

# Without these limits, a script that reports the norm of each layer would create hundreds of charts.
CURVES = 24
RESTARTS = 20
RATES = 60
LEFT_OUT = 100

# The maximum number of files to list in a directory.
FILES = 100
