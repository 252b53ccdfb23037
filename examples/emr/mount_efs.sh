#!/bin/bash
# A bootstrap action that mounts an EFS file system on each node of an EMR cluster, for the user hadoop:
#
#   mount_efs.sh FILE_SYSTEM_ID REGION [DIRECTORY]
#
# The directory is /efs by default. The script is idempotent: it performs only the steps that are missing. It gives a new, empty file
# system to hadoop, and ends with an error unless hadoop can write to the file system. It writes the same line to /etc/fstab as the role
# shared_storage of the collection deeplearning.cluster.
set -euo pipefail

fail() {
  echo "$1" >&2
  exit 1
}

[[ $# -ge 2 && $# -le 3 ]] || fail "usage: mount_efs.sh FILE_SYSTEM_ID REGION [DIRECTORY]"
file_system=$1 region=$2 directory=${3:-/efs}
[[ $file_system =~ ^fs-[0-9a-f]{8,40}$ ]] || fail "FILE_SYSTEM_ID: '$file_system' is not the ID of a file system. Use an ID such as fs-0123456789abcdef0."
[[ $region =~ ^[a-z]{2}(-[a-z]+)+-[0-9]$ ]] || fail "REGION: '$region' is not a region. Use a region such as us-east-1."
[[ $directory =~ ^(/[A-Za-z0-9._-]+)+$ ]] || fail "DIRECTORY: '$directory' is not an absolute path of letters, digits, '.', '_' and '-'."
[[ $region == cn-* ]] && domain=amazonaws.com.cn || domain=amazonaws.com
source=$file_system.efs.$region.$domain:/
options=nfsvers=4.1,rsize=1048576,wsize=1048576,hard,timeo=600,retrans=2,noresvport,nosuid,nodev,_netdev,nofail
entry="$source $directory nfs4 $options 0 0"
# It can take minutes until the name of a new mount target can be resolved.
deadline=$((SECONDS + ${MOUNT_TIMEOUT:-600}))

# Runs a command until it succeeds or the time limit is reached.
retry() {
  until "$@"; do
    ((SECONDS < deadline)) || fail "$*: failed for ${MOUNT_TIMEOUT:-600} s. Check that the file system has an available mount target in the \
network of the nodes, and that its security group allows traffic from the nodes on port 2049."
    sleep 2
  done
}

# Tests write access: creates a new file, so that no link is followed, and removes this file and the files of interrupted runs.
write_to() {
  local name
  name=.mount_efs-$(hostname)
  mktemp "$1/$name.XXXXXXXX" >/dev/null && { rm -f "$1/$name".* 2>/dev/null || true; }
}

mounted() {
  mountpoint --quiet "$directory"
}

[[ -x /sbin/mount.nfs4 ]] || retry sudo yum --assumeyes --quiet install nfs-utils
sudo mkdir -p "$directory"
other=$(awk -v directory="$directory" -v wanted="$source" '$1 !~ /^#/ && $2 == directory && $1 != wanted { print $1 }' /etc/fstab)
[[ -z $other ]] || fail "$directory: /etc/fstab mounts $other there. Specify another directory."
if ! awk -v directory="$directory" '$1 !~ /^#/ && $2 == directory { found = 1 } END { exit !found }' /etc/fstab; then
  ! mounted || fail "$directory: another file system is mounted there. Specify another directory."
  # The file is replaced as a whole, so that an interrupted run leaves no incomplete line.
  { cat /etc/fstab && echo "$entry"; } | sudo tee /etc/fstab.mount_efs >/dev/null
  sudo chmod 644 /etc/fstab.mount_efs
  sudo mv /etc/fstab.mount_efs /etc/fstab
fi
mounted || retry sudo mount "$directory"
# Only a new file system gets a new owner. If a file system has an owner or contents, others may be using it.
if [[ $(stat --format=%u "$directory") == 0 && -z $(ls -A "$directory") ]]; then
  sudo chown --no-dereference "$(id -u):$(id -g)" "$directory"
fi
[[ -w $directory ]] || fail "$directory: $(id -un) cannot write to it, and the file system is not new: its top directory belongs to \
$(stat --format=%U "$directory"). Give $(id -un) write permission, or specify a new file system."
retry write_to "$directory"
mounted || fail "$directory: nothing is mounted there."
echo "$source is mounted at $directory."
