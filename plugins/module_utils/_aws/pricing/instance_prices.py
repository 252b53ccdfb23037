# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""On-Demand prices of instance types with Linux, in dollars per hour. Written by tools/prices.py from the AWS Price List.

Source: Karpenter's provider for AWS, pkg/providers/pricing/zz_generated.pricing_aws.go, Apache License 2.0. Only the numbers are used.
"""

DATE = "2026-07-20"
REGION = "us-east-1"
# Each line consists of an instance family, and of sizes with their prices.
TABLE = """c5 12xlarge=2.04 18xlarge=3.06 24xlarge=4.08 2xlarge=0.34 4xlarge=0.68 9xlarge=1.53
c5 large=0.085 metal=4.08 xlarge=0.17
c5n 18xlarge=3.888 2xlarge=0.432 4xlarge=0.864 9xlarge=1.944 large=0.108 metal=3.888
c5n xlarge=0.216
c6i 12xlarge=2.04 16xlarge=2.72 24xlarge=4.08 2xlarge=0.34 32xlarge=5.44 4xlarge=0.68
c6i 8xlarge=1.36 large=0.085 metal=5.44 xlarge=0.17
c7i 12xlarge=2.142 16xlarge=2.856 24xlarge=4.284 2xlarge=0.357 48xlarge=8.568 4xlarge=0.714
c7i 8xlarge=1.428 large=0.08925 metal-24xl=4.7124 metal-48xl=8.568 xlarge=0.1785
dl1 24xlarge=13.10904
g2 2xlarge=0.65 8xlarge=2.6
g3 16xlarge=4.56 4xlarge=1.14 8xlarge=2.28
g3s xlarge=0.75
g4ad 16xlarge=3.468 2xlarge=0.54117 4xlarge=0.867 8xlarge=1.734 xlarge=0.37853
g4dn 12xlarge=3.912 16xlarge=4.352 2xlarge=0.752 4xlarge=1.204 8xlarge=2.176 metal=7.824
g4dn xlarge=0.526
g5 12xlarge=5.672 16xlarge=4.096 24xlarge=8.144 2xlarge=1.212 48xlarge=16.288 4xlarge=1.624
g5 8xlarge=2.448 xlarge=1.006
g5g 16xlarge=2.744 2xlarge=0.556 4xlarge=0.828 8xlarge=1.372 metal=2.744 xlarge=0.42
g6 12xlarge=4.6016 16xlarge=3.3968 24xlarge=6.6752 2xlarge=0.9776 48xlarge=13.3504 4xlarge=1.3232
g6 8xlarge=2.0144 xlarge=0.8048
g6e 12xlarge=10.49264 16xlarge=7.57719 24xlarge=15.06559 2xlarge=2.24208 48xlarge=30.13118 4xlarge=3.00424
g6e 8xlarge=4.52856 xlarge=1.861
g6f 2xlarge=0.475 4xlarge=0.95 large=0.202 xlarge=0.2375
g7 12xlarge=7.12832 24xlarge=14.25664 2xlarge=2.52 48xlarge=28.51328 4xlarge=3.04208 8xlarge=4.08624
g7e 12xlarge=8.28608 24xlarge=16.57216 2xlarge=3.36312 48xlarge=33.14432 4xlarge=3.99816 8xlarge=5.26824
gr6 4xlarge=1.5392 8xlarge=2.4464
gr6f 4xlarge=1.066
inf1 24xlarge=4.721 2xlarge=0.362 6xlarge=1.18 xlarge=0.228
inf2 24xlarge=6.49063 48xlarge=12.98127 8xlarge=1.96786 xlarge=0.7582
m5 12xlarge=2.304 16xlarge=3.072 24xlarge=4.608 2xlarge=0.384 4xlarge=0.768 8xlarge=1.536
m5 large=0.096 metal=4.608 xlarge=0.192
m6i 12xlarge=2.304 16xlarge=3.072 24xlarge=4.608 2xlarge=0.384 32xlarge=6.144 4xlarge=0.768
m6i 8xlarge=1.536 large=0.096 metal=6.144 xlarge=0.192
m7i 12xlarge=2.4192 16xlarge=3.2256 24xlarge=4.8384 2xlarge=0.4032 48xlarge=9.6768 4xlarge=0.8064
m7i 8xlarge=1.6128 large=0.1008 metal-24xl=5.32224 metal-48xl=9.6768 xlarge=0.2016
p2 16xlarge=14.4 8xlarge=7.2 xlarge=0.9
p3 16xlarge=24.48 2xlarge=3.06 8xlarge=12.24
p3dn 24xlarge=31.212
p4d 24xlarge=21.957642
p4de 24xlarge=27.44705
p5 48xlarge=55.04 4xlarge=6.88
p5en 48xlarge=63.296
r5 12xlarge=3.024 16xlarge=4.032 24xlarge=6.048 2xlarge=0.504 4xlarge=1.008 8xlarge=2.016
r5 large=0.126 metal=6.048 xlarge=0.252
r6i 12xlarge=3.024 16xlarge=4.032 24xlarge=6.048 2xlarge=0.504 32xlarge=8.064 4xlarge=1.008
r6i 8xlarge=2.016 large=0.126 metal=8.064 xlarge=0.252
r7i 12xlarge=3.1752 16xlarge=4.2336 24xlarge=6.3504 2xlarge=0.5292 48xlarge=12.7008 4xlarge=1.0584
r7i 8xlarge=2.1168 large=0.1323 metal-24xl=6.98544 metal-48xl=12.7008 xlarge=0.2646
t3 2xlarge=0.3328 large=0.0832 medium=0.0416 micro=0.0104 nano=0.0052 small=0.0208
t3 xlarge=0.1664
t3a 2xlarge=0.3008 large=0.0752 medium=0.0376 micro=0.0094 nano=0.0047 small=0.0188
t3a xlarge=0.1504
trn1 2xlarge=1.34375 32xlarge=21.5
trn1n 32xlarge=24.78
"""
