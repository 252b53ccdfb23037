"""The tensorflow launcher on two hosts: a script for each strategy, the example with parameter servers, and jobs with faults."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from ..cluster import job_cluster
from .cifar10 import DIRECTORY, EXAMPLE, staged
from .conftest import Endless, kill_rank_and_resume

pytestmark = pytest.mark.frameworks

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
TENSORFLOW = {"launcher": "tensorflow", "python": "/opt/tensorflow/bin/python", "stop_timeout": 5}

# All processes learn these weights, each from its own inputs.
TRUTH = [1.0, -2.0, 3.0]

# A script in the style of TensorFlow 1, like those that generate_trainer.py started.
TENSORFLOW_1 = f"""
    import os
    import socket

    import numpy as np
    import tensorflow.compat.v1 as tf

    flags = tf.app.flags
    flags.DEFINE_string("ps_hosts", "", "parameter servers")
    flags.DEFINE_string("worker_hosts", "", "workers")
    flags.DEFINE_string("job_name", "", "ps or worker")
    flags.DEFINE_integer("task_index", 0, "index of the task")
    flags.DEFINE_integer("max_steps", 100, "steps of all workers together")
    flags.DEFINE_string("train_dir", "/tmp/train", "checkpoints")
    FLAGS = flags.FLAGS


    def main(_):
        cluster = tf.train.ClusterSpec({{"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")}})
        server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
        print(FLAGS.job_name, FLAGS.task_index, socket.gethostname(), "sees", repr(os.environ.get("CUDA_VISIBLE_DEVICES")), flush=True)
        if FLAGS.job_name == "ps":
            server.join()
        worker = "/job:worker/task:%d" % FLAGS.task_index
        with tf.device(tf.train.replica_device_setter(worker_device=worker, cluster=cluster)):
            step = tf.train.get_or_create_global_step()
            weights = tf.get_variable("weights", [3, 1], initializer=tf.zeros_initializer())
            inputs = tf.placeholder(tf.float32, [None, 3])
            outputs = tf.placeholder(tf.float32, [None, 1])
            loss = tf.reduce_mean(tf.square(tf.matmul(inputs, weights) - outputs))
            train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
        supervisor = tf.train.Supervisor(
            is_chief=FLAGS.task_index == 0, logdir=FLAGS.train_dir, global_step=step, recovery_wait_secs=1)
        config = tf.ConfigProto(device_filters=["/job:ps", worker])
        session = supervisor.prepare_or_wait_for_session(server.target, config=config)
        done = count = 0
        while done < FLAGS.max_steps:
            x = np.random.normal(size=(64, 3))
            _, done = session.run([train, step], {{inputs: x, outputs: x.dot(np.array({TRUTH}).reshape(3, 1))}})
            count += 1
            if count == 20:
                print("training", flush=True)
        print("weights", *(round(float(w), 2) + 0.0 for w in session.run(weights).ravel()), flush=True)
        if FLAGS.task_index == 0:
            supervisor.saver.save(session, os.path.join(FLAGS.train_dir, "model.ckpt"), global_step=step)


    if __name__ == "__main__":
        tf.disable_v2_behavior()
        tf.app.run(main)
"""

COORDINATED = f"""
    import socket

    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    print(resolver.task_type, resolver.task_id, socket.gethostname(), flush=True)
    if resolver.task_type in ("worker", "ps"):
        server = tf.distribute.Server(resolver.cluster_spec(), resolver.task_type, resolver.task_id, protocol="grpc")
        server.join()
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        weights = [tf.Variable(0.0) for _ in range(3)]
        steps = tf.Variable(0, dtype=tf.int64)
    print("kept by", *sorted({{weight.device for weight in weights}}), flush=True)

    @tf.function
    def step():
        inputs = tf.random.normal((64, 3))
        with tf.GradientTape() as tape:
            errors = tf.linalg.matvec(inputs, tf.stack(weights) - tf.constant({TRUTH}))
            loss = tf.reduce_mean(errors**2)
        for weight, gradient in zip(weights, tape.gradient(loss, weights)):
            weight.assign_sub(0.1 * gradient)
        steps.assign_add(1)

    for _ in range(100):
        coordinator.schedule(step)
    coordinator.join()
    print("weights", *(round(float(weight), 2) for weight in weights), "after", int(steps), flush=True)
"""

MIRRORED = f"""
    import sys

    import numpy as np
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    resolver = strategy.cluster_resolver
    print(resolver.task_type, resolver.task_id, "of", strategy.num_replicas_in_sync, flush=True)
    inputs = np.random.default_rng(0).normal(size=(256, 3)).astype("float32")
    outputs = inputs @ np.array({TRUTH}, dtype="float32")
    data = tf.data.Dataset.from_tensor_slices((inputs, outputs)).batch(64).repeat()
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros", input_shape=(3,))])
        model.compile(tf.keras.optimizers.SGD(0.1), "mse")
    began = tf.keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: epoch == 1 and print("training", flush=True))
    model.fit(data, epochs=int(sys.argv[1]), steps_per_epoch=20, verbose=0, callbacks=[began])
    print("weights", *(round(float(weight), 2) for weight in model.get_weights()[0].ravel()), flush=True)
"""

FOUND = "weights " + " ".join(map(str, TRUTH))
MIRRORED_VARIABLES = {**TENSORFLOW, "environment": {"TF_USE_LEGACY_KERAS": "1"}}
FLAGS_VARIABLES = {**TENSORFLOW, "launcher_options": {"strategy": "flags"}}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with job_cluster(tmp_path_factory.mktemp("tensorflow"), ["tensorflow"], count=2) as result:
        yield result


def train(cluster, name, script, **variables):
    """Run a job until it ends and return its logs by process."""
    result = cluster.play(cluster.playbook(name, script, **variables))
    directory = f"/efs/jobs/{name}/logs"
    logs = {Path(path).stem: cluster.read(path) for path in cluster.hosts[0].ssh(f"ls {directory}/*.log", check=False).stdout.split()}
    assert result.returncode == 0, result.stdout + "".join(logs.values())
    return logs


def host_name(cluster, index):
    return "ip-" + cluster.workers[index]["address"].replace(".", "-")


def test_a_script_of_tensorflow_1_runs_as_generate_trainer_ran_it(cluster):
    cluster.hosts[0].ssh("sudo install -d -o 61000 -g ubuntu -m 2775 /efs/old")  # as docs/jobs.md says
    logs = train(cluster, "old", TENSORFLOW_1, arguments=["--train_dir=/efs/old", "--max_steps", "200"], **FLAGS_VARIABLES)
    assert sorted(logs) == ["ps0", "ps1", "worker0", "worker1"]
    for name, log in logs.items():
        kind, index = name[:-1], int(name[-1])
        assert f"{kind} {index} {host_name(cluster, index)} sees " + ("''" if kind == "ps" else "None") in log
        assert kind == "ps" or FOUND in log
    assert re.search(r"model.ckpt-2\d\d.index", cluster.hosts[1].ssh("ls /efs/old").stdout)


def test_a_coordinator_trains_by_workers_and_parameter_servers(cluster):
    logs = train(cluster, "coordinated", COORDINATED, **TENSORFLOW, launcher_options={"strategy": "parameter_server"})
    for name, log in logs.items():
        kind, index = name[:-1], int(name[-1])
        assert f"{kind} {index} {host_name(cluster, index)}" in log
    assert FOUND + " after 100" in logs["chief0"]
    assert "/job:ps/replica:0/task:0/device:CPU:0 /job:ps/replica:0/task:1/device:CPU:0" in logs["chief0"]
    assert sorted(logs) == ["chief0", "ps0", "ps1", "worker0", "worker1"]


def test_mirrored_workers_hold_the_same_model(cluster):
    logs = train(cluster, "mirrored", MIRRORED, arguments=["4"], **MIRRORED_VARIABLES)
    for index in range(2):
        assert f"worker {index} of 2" in logs[f"worker{index}"]
        assert FOUND in logs[f"worker{index}"]
    assert len(logs) == 2


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_the_example_trains_goes_on_and_is_evaluated(cluster, kind):
    text = (EXAMPLES / f"definitions/cifar10_tensorflow_{kind}.yml").read_text()
    variables = {name.partition("training_job_")[2]: value for name, value in yaml.safe_load(text).items() if "training_job_" in name}
    definition = {**variables, **TENSORFLOW, "source": str(EXAMPLES / "cifar10")}
    script, arguments = definition.pop("script"), definition.pop("arguments")
    name = f"cifar10-{kind}"
    steps = int(arguments[arguments.index("--max-steps") + 1])
    logs = train(cluster, name, script, arguments=arguments, **definition)
    for index in range(2):
        assert f"worker {index} of 2 on {host_name(cluster, index)}: 1500 of 3000 images" in logs[f"worker{index}"]
        assert "has finished training" in logs[f"worker{index}"]
    assert "starts from the beginning" in logs["worker0"]
    progress = [json.loads(line) for line in cluster.read(f"/efs/jobs/{name}/progress.jsonl").splitlines()]
    assert progress[-1]["steps"] == steps
    assert progress[-1]["step"] >= steps - 20
    # Each point is the loss of one batch.
    assert min(point["loss"] for point in progress[-3:]) < progress[0]["loss"] * 0.6
    assert "events.out.tfevents" in cluster.hosts[0].ssh(f"ls /efs/jobs/{name}/tensorboard").stdout

    checkpoints = f"/efs/jobs/{name}/checkpoints"
    if kind == "sync":
        definition["environment"] = {"DEEPLEARNING_CHECKPOINT_DIRECTORY": checkpoints}
        arguments[arguments.index("--max-steps") + 1] = str(steps + 10)
        logs = train(cluster, f"{name}-2", script, arguments=arguments, **definition)
        assert f"continues from {checkpoints}/model.ckpt-{steps}" in logs["worker0"]
        steps += 10

    command = {**definition, "launcher": "command", "launcher_options": {"hosts": "first"}}
    logs = train(cluster, f"evaluate-{kind}", "tensorflow_evaluate.py", arguments=["--checkpoints", checkpoints], **command)
    found = re.search(r"\(step (\d+)\) recognizes ([\d.]+) of 1000 held-out images", logs["rank0"])
    assert int(found[1]) >= steps
    assert float(found[2]) > 0.5


def test_the_example_trains_on_staged_files_of_cifar_10_and_is_evaluated_on_them(cluster):
    example = {"source": str(EXAMPLE), **TENSORFLOW}
    with staged(cluster, TENSORFLOW["python"], "binary"):
        steps = ["--sync", "--max-steps", "10"]
        logs = train(cluster, "cifar10-staged", "tensorflow_train.py", arguments=steps, launcher_options={"strategy": "flags"}, **example)
        command = {**example, "launcher": "command", "launcher_options": {"hosts": "first"}}
        found = ["--checkpoints", "/efs/jobs/cifar10-staged/checkpoints"]
        evaluated = train(cluster, "evaluate-staged", "tensorflow_evaluate.py", arguments=found, **command)["rank0"]
    for index in range(2):
        assert f"images: CIFAR-10 from {DIRECTORY}/cifar-10-batches-bin\n" in logs[f"worker{index}"]
        assert "48 of 96 images" in logs[f"worker{index}"]
    assert f"images: CIFAR-10 from {DIRECTORY}/cifar-10-batches-bin\n" in evaluated
    assert " of 30 held-out images" in evaluated


# A script whose session saves a checkpoint as soon as it is created. The first argument is the first step that fails: because of a bug in
# each attempt or, with the argument `once`, because of a fault in the first attempt, which also damages the newest checkpoint.
MONITORED = """
    import os
    import pathlib
    import sys

    import tensorflow.compat.v1 as tf

    tf.disable_eager_execution()
    directory, broken, steps = os.environ["DEEPLEARNING_CHECKPOINT_DIRECTORY"], int(sys.argv[1]), 40
    tf.get_variable("weights", [3], initializer=tf.zeros_initializer())
    step = tf.assign_add(tf.train.get_or_create_global_step(), 1)
    print("newest checkpoint:", tf.train.latest_checkpoint(directory), flush=True)
    hooks = [tf.train.StopAtStepHook(last_step=steps)]
    with tf.train.MonitoredTrainingSession(checkpoint_dir=directory, hooks=hooks, save_checkpoint_steps=10, save_summaries_steps=None,
                                           save_summaries_secs=None) as session:
        while not session.should_stop():
            if session.run(step) >= broken and ("once" not in sys.argv or os.environ["DEEPLEARNING_ATTEMPT"] == "1"):
                if "once" not in sys.argv:
                    raise ValueError("a bug")
                newest = tf.train.latest_checkpoint(directory)
                pathlib.Path(newest + ".data-00000-of-00001").write_bytes(b"garbage")
                os.abort()
    print("finished", flush=True)
"""
ONE_PROCESS = {**TENSORFLOW, "launcher": "command", "launcher_options": {"hosts": "first"}, "restarts": 3}


@pytest.mark.parametrize("broken", [1, 25])
def test_a_bug_after_the_creation_of_the_session_ends_the_job(cluster, broken):
    """Each new session writes graph.pbtxt and event files, and saves the checkpoint that it has loaded again. None of this is progress."""
    name = f"bug-{broken}"
    result = cluster.train(name, MONITORED, arguments=[str(broken)], **ONE_PROCESS)
    assert result.returncode != 0
    found = cluster.info(name)
    assert (found["state"], found["attempt"]) == ("failed", 2 if broken == 1 else 3), found["attempts"]
    assert "ValueError at" in result.stdout, result.stdout


def test_a_damaged_checkpoint_is_set_aside_with_all_of_its_files(cluster):
    result = cluster.train("damaged", MONITORED, arguments=["35", "once"], **ONE_PROCESS)
    assert result.returncode == 0, result.stdout + result.stderr
    found = cluster.info("damaged")
    assert (found["state"], found["attempt"]) == ("succeeded", 3), found["attempts"]
    directory = "/efs/jobs/damaged"
    log = cluster.read(f"{directory}/logs/attempt3/rank0.log")
    assert f"newest checkpoint: {directory}/checkpoints/model.ckpt-20\n" in log
    hidden = cluster.hosts[0].ssh(f"ls -A {directory}/checkpoints | grep suspect").stdout.split()
    endings = ["data-00000-of-00001", "index", "meta"]
    assert sorted(name.partition("-model.ckpt-30.")[2] for name in hidden) == endings


def test_the_example_continues_from_its_checkpoint_when_a_worker_was_killed(cluster):
    example = {**TENSORFLOW, "launcher_options": {"strategy": "flags"}, "source": str(EXAMPLE)}
    rank = "/opt/tensorflow/bin/python .* --job_name=worker"
    log = kill_rank_and_resume(cluster, "resumes", "tensorflow_train.py", rank, arguments=["--sync", "--max-steps", "160"], **example)
    assert re.search(r"continues from /efs/jobs/resumes/checkpoints/model.ckpt-[1-9]", log), log
    newest = cluster.read("/efs/jobs/resumes/checkpoints/checkpoint").splitlines()[0]
    assert newest == 'model_checkpoint_path: "/efs/jobs/resumes/checkpoints/model.ckpt-160"'


def is_training(cluster, name):
    return cluster.hosts[0].ssh(f"cat /efs/jobs/{name}/logs/*.log", check=False).stdout.count("training\n") == 2


ENDLESS = {
    "flags": Endless(
        script=TENSORFLOW_1,
        variables={**FLAGS_VARIABLES, "arguments": ["--max_steps=1000000000"]},
        launcher="/jobs/kill-launcher-tensorflow-flags-ps1/supervisor.zip run",
        rank="/opt/tensorflow/bin/python .* --job_name=worker",
        training=is_training,
        variant="flags",
    ),
    "mirrored": Endless(
        script=MIRRORED,
        variables={**MIRRORED_VARIABLES, "arguments": ["1000000000"]},
        launcher="/jobs/kill-launcher-tensorflow-mirrored-worker1/supervisor.zip run",
        rank="/opt/tensorflow/bin/python",
        training=is_training,
        variant="mirrored",
    ),
}


@pytest.mark.parametrize("kind", sorted(ENDLESS))
def test_survives(cluster, survive, kind):
    survive(cluster, ENDLESS[kind])
