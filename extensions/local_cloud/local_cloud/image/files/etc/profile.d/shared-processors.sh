# All hosts share the processors of one machine. With a thread per processor on each host, the threads would mostly wait for each other.
export OMP_NUM_THREADS=1
