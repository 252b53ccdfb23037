# Horovod is built against the hosts' own Open MPI and the installed PyTorch.
set -eu
apt-get update -q
DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends cmake g++ libopenmpi-dev make python3-dev
cd "$(mktemp -d)"
pip download --quiet --no-deps --no-binary :all: --no-build-isolation horovod==0.28.1
tar --extract --gzip --strip-components=1 --file horovod-0.28.1.tar.gz
# Horovod selects C++14, but the headers of this PyTorch do not compile as C++14.
sed -i 's/set(CMAKE_CXX_STANDARD 14)/set(CMAKE_CXX_STANDARD 20)/' CMakeLists.txt horovod/torch/CMakeLists.txt
export HOROVOD_WITH_PYTORCH=1 HOROVOD_WITHOUT_TENSORFLOW=1 HOROVOD_WITHOUT_MXNET=1
export HOROVOD_WITH_MPI=1 HOROVOD_WITH_GLOO=1 HOROVOD_CPU_OPERATIONS=MPI MAKEFLAGS="-j$(nproc)"
pip install --quiet --no-deps --no-build-isolation .
