"""What runs on GPU nodes beside work, and how work is started. Written from published figures, before the limits of the product were read.

Each line: how often a node has it, where it runs, its command, processor seconds per minute, MB per minute received, sent, and written to disk.
Where: the name of a service, `session` (with a terminal), `detached` (tmux, nohup), `vscode`, `container` or `kernel`.
"""

from __future__ import annotations

# Ubuntu and Amazon Linux as in AWS's Deep Learning AMIs, with the agents that people add.
# node_exporter issue 1880: 80 ms per scrape, 2966: seconds on large servers. gpu-monitoring-tools issue 133: dcgm-exporter takes 15-20 % of
# a core, nvidia-smi dmon 7.5 %. compute-image-tools issue 2154: snapd took 280 s in 7 hours. The others: inferred from `ps` on such images.
DAEMONS = """
1 systemd-journald.service systemd-journald .005:.1 0 0 .01:.3
1 systemd-udevd.service systemd-udevd 0:.01 0 0 0
1 systemd-logind.service systemd-logind 0:.01 0 0 0
1 dbus.service dbus-daemon 0:.02 0 0 0
1 chrony.service chronyd .001:.01 0 0 0
1 cron.service cron .001:.01 0 0 0
1 ssh.service sshd 0:.05 0:.1 0:.1 0
1 multipathd.service multipathd .03:.1 0 0 0
.8 irqbalance.service irqbalance .02:.3 0 0 0
.8 rsyslog.service rsyslogd .005:.1 0 0 .01:.3
.8 snapd.service snapd .02:.7 0:.05 0:.01 0:.05
1 snap.amazon-ssm-agent.amazon-ssm-agent.service amazon-ssm-agent .01:.1 0 0 0
1 snap.amazon-ssm-agent.amazon-ssm-agent.service ssm-agent-worker .02:.3 .005:.05 .005:.05 0:.02
.5 amazon-cloudwatch-agent.service amazon-cloudwatch-agent .1:1.5 .01:.1 .05:.8 0:.1
1 nvidia-persistenced.service nvidia-persistenced 0:.001 0 0 0
.5 nvidia-fabricmanager.service nv-fabricmanager .01:.1 0 0 0
.4 nvidia-dcgm.service nv-hostengine .1:4 0 0 0:.01
.3 dcgm-exporter.service dcgm-exporter .2:12 .01:.1 .05:.5 0
.4 prometheus-node-exporter.service node_exporter .05:3 .01:.1 .05:1 0
.8 containerd.service containerd .02:.4 0 0 0:.02
.8 docker.service dockerd .02:.3 0 0 0:.02
.3 slurmd.service slurmd .001:.1 0:.02 0:.02 0:.01
.3 munge.service munged 0:.02 0 0 0
.5 amazon-efs-mount-watchdog.service amazon-efs-mount-watchdog .05:.4 0 0 0:.01
.5 amazon-efs-mount-watchdog.service efs-proxy 0:.05 .001:.05 .001:.05 0
.2 datadog-agent.service agent .3:3 .05:.3 .1:1 0:.2
.1 falcon-sensor.service falcon-sensor .2:3 .05:.3 .05:.5 0:.2
1 kernel kworker .01:.3 0 0 .01:.2
1 kernel rcu_sched .01:.3 0 0 0
.5 kernel ptlrpcd_00 .001:.05 .005:.02 .005:.02 0
"""

# Timers: the same fields, but first minutes between runs and minutes of a run, and all figures per minute of the run.
# mvo5/unattended-upgrades issue 402: minutes of a core. aws-parallelcluster issue 3269: apt-daily on compute nodes.
TIMERS = """
300:720 .3:3 .9 apt-daily.service apt.systemd.dai 20:60 5:60 .1:.5 5:100
1200:1440 1:14 .9 apt-daily-upgrade.service unattended-upgr 45:70 5:200 .1:1 50:900
300:420 .3:4 .7 snapd.service snapd 5:50 20:150 .1:1 20:200
60 .02:.1 1 cron.service run-parts .05:1 0 0 0:.1
10 .02:.1 .6 sysstat-collect.service sadc .05:.5 0 0 .01:.1
1440 .1:2 1 logrotate.service gzip 5:55 0 0 5:300
1440 .5:10 .6 plocate-updatedb.service updatedb.plocat 5:50 0:30 0:5 1:50
1440 .1:1 .8 man-db.service mandb 5:50 0 0 1:20
1440 .02:.1 1 systemd-tmpfiles-clean.service systemd-tmpfile .1:2 0 0 0:1
720 .02:.1 .7 motd-news.service curl .05:.3 .01:.1 .01:.1 0
60 .1:.5 .3 dnf-makecache.service dnf 5:40 .5:40 .1:.5 1:80
30 .05:.5 .4 snap.amazon-ssm-agent.amazon-ssm-agent.service ssm-document-wo 1:20 .1:2 .1:2 .1:2
1440 .5:4 .2 snap.amazon-ssm-agent.amazon-ssm-agent.service PatchLinux.py 20:60 5:100 .1:2 5:100
15 .02:.2 .2 cron.service python3 .3:4 .01:.3 .01:.3 0:.1
10080 .1:3 1 fstrim.service fstrim .5:5 0 0 0
"""

# What people leave running overnight, with nobody there. vscode-remote-release issues 245 and 6894: 4 s in 8 hours, processes stay after
# disconnecting. spyder issue 1450, jupynium.nvim issue 14: an idle kernel takes 0.3-1 %. tensorboard issues 3177 and 766: reads each 5 s, up
# to 20 % of the processors. wandb issue 3961: the agent polls after the sweep. ray pull request 30021: 1-2 %, issue 21618: 3 MB/s.
LEFT = """
.5 detached tmux:_server .01:.2 0 0 0
.5 detached bash 0 0 0 0
.3 detached vim .001:.02 0 0 0:.001
.3 session bash 0 0 0 0
.15 session htop .3:2 0 .02:.3 0
.15 detached htop .3:2 0 0 0
.1 detached watch .02:.2 0 0 0
.1 detached nvidia-smi .5:10 0 0 0
.1 detached nvtop .5:4 0 0 0
.1 detached tail .001:.05 0 0 0
.3 vscode node .01:.6 0:.01 0:.01 0:.01
.1 vscode pylance .01:1.2 0 0 0
.3 detached jupyter-lab .02:.6 0:.01 0:.01 0
.3 detached ipykernel .05:.6 0 0 0
.2 detached tensorboard .1:6 0:6 0:1 0
.1 detached wandb .02:.3 .005:.05 .005:.05 0:.01
.1 detached raylet .3:3 .05:1 .05:1 .01:.2
.1 detached gcs_server .1:2 .05:1 .05:1 0
.1 detached mlflow .02:.6 0 0 0
.1 detached bash_squeue_loop .05:.6 .01:.1 .01:.1 0
.2 container sleep 0 0 0 0
.1 container gunicorn .01:.3 0 0 0
.1 container redis-server .06:.3 0 0 0:.01
.1 container postgres .01:.1 0 0 .01:.1
.2 detached pt_data_worker 0 0 0 0
"""
