"""Training is killed at random moments: every checkpoint loads, and the resumed run ends with the same bits."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

import tensorx as tx
from tensorx import train

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")

BODY = """
import sys
import tensorx as tx
from tensorx import nn, train

def main(path, epochs):
    tx.manual_seed(0)
    x = tx.random.normal(0.0, 1.0, (96, 8), generator=tx.random.Generator(1))
    y = tx.sum(x * x, axis=1, keepdims=True)
    model = nn.Sequential(nn.Linear(8, 300), nn.ReLU(), nn.Linear(300, 1))
    optimizer = tx.optim.AdamW(model.parameters(), lr=1e-2)

    def step(model, batch):
        # the default generator is part of what has to come back
        x, y = batch
        noisy = x + 0.1 * tx.random.normal(0.0, 1.0, x.shape)
        out = model(noisy)
        return nn.functional.mse_loss(out, y), out, y

    trainer = train.Trainer(
        model, optimizer, step=step, metrics={"error": train.Mean(lambda o, t: tx.mean(tx.abs(o - t)))},
        scheduler=tx.optim.lr_scheduler.CosineAnnealingLR(optimizer, 50), checkpoint=path, checkpoint_steps=2, progress=None,
    )
    loader = train.DataLoader(train.TensorDataset(x, y), batch_size=16, shuffle=True, seed=3)
    trainer.fit(loader, epochs, validation=loader.__class__(loader.dataset, 48))
    return trainer
"""


def run_here(path, epochs):
    space: dict = {}
    exec(BODY, space)
    return space["main"](path, epochs)


def bits(trainer):
    return [p.detach().numpy().tobytes() for p in trainer.model.parameters()], trainer.history


SERVER = """
import os
tx.set_num_threads(1)
print("imported", flush=True)
# a new process for every kill, without paying for the imports each time
for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        main(sys.argv[1], int(line))
        os._exit(0)
    print(pid, flush=True)
    os.waitpid(pid, 0)
    print("ended", flush=True)
"""


def test_killed_runs_leave_whole_checkpoints_and_end_with_the_same_bits(tmp_path):
    path = tmp_path / "run.ckpt"
    root = os.path.dirname(os.path.dirname(tx.__file__))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    server = subprocess.Popen(
        [sys.executable, "-c", BODY + SERVER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
    )
    chance = random.Random(5)
    loaded = 0
    try:
        assert server.stdout.readline() == "imported\n"
        for k in range(20):
            before = path.stat().st_mtime_ns if path.exists() else 0
            # unless it is killed the run goes on for very long; writing checkpoints is a good part of its time
            server.stdin.write("1000000\n")
            server.stdin.flush()
            pid = int(server.stdout.readline())
            # some die right after their start, the others after at least one checkpoint of their own
            late = time.monotonic() + (0 if k % 5 == 4 else 5)
            while time.monotonic() < late and not (path.exists() and path.stat().st_mtime_ns != before):
                time.sleep(0.001)
            time.sleep(chance.uniform(0.0, 0.03))
            os.kill(pid, signal.SIGKILL)
            assert server.stdout.readline() == "ended\n"
            if path.exists():
                state = train.load_checkpoint(path)
                assert state["model"]["0.weight"].shape == (300, 8)
                loaded += 1
    finally:
        server.stdin.close()
        server.wait(timeout=20)
        server.stdout.close()
    assert loaded >= 15 and state["steps"] >= 20
    epochs = state["epoch"] + 2
    assert bits(run_here(path, epochs)) == bits(run_here(None, epochs))


def test_resumed_in_the_middle_gives_the_same_bits(tmp_path):
    """Interrupted after every few batches, in fresh processes of the same code: as if nothing had happened."""
    epochs = 4
    whole = bits(run_here(None, epochs))

    class Stop(Exception):
        pass

    path = tmp_path / "part.ckpt"
    space: dict = {}
    exec(BODY, space)
    original = train.Trainer.train_batch
    rounds = 0
    for allowed in (3, 5, 7, 4, 100):
        left = [allowed]

        def limited(self, batch, left=left):
            if left[0] == 0:
                raise Stop
            left[0] -= 1
            return original(self, batch)

        train.Trainer.train_batch = limited
        try:
            trainer = space["main"](path, epochs)
        except Stop:
            rounds += 1
            assert path.exists() or allowed < 2
            continue
        finally:
            train.Trainer.train_batch = original
        break
    assert rounds == 4
    assert bits(trainer) == whole


def test_damaged_files_are_refused(tmp_path):
    path = tmp_path / "a.ckpt"
    state = {"w": tx.ones((2, 3)), "n": {1: (2.5, None), "x": [True, "text"]}, "b": tx.ones(3, dtype=tx.bfloat16), "none": tx.zeros((0, 2))}
    train.save_checkpoint(path, state)
    back = train.load_checkpoint(path)
    assert back["n"] == state["n"] and back["w"].tolist() == [[1, 1, 1]] * 2 and back["b"].dtype is tx.bfloat16 and back["none"].shape == (0, 2)
    data = path.read_bytes()
    for cut in range(0, len(data), 7):
        path.write_bytes(data[:cut])
        with pytest.raises(ValueError, match="load_checkpoint"):
            train.load_checkpoint(path)
    for at in (3, len(data) // 2, len(data) - 1):
        changed = bytearray(data)
        changed[at] ^= 1
        path.write_bytes(bytes(changed))
        with pytest.raises(ValueError, match="load_checkpoint"):
            train.load_checkpoint(path)
    path.write_bytes(data + b"x")
    with pytest.raises(ValueError):
        train.load_checkpoint(path)
    with pytest.raises(FileNotFoundError):
        train.load_checkpoint(tmp_path / "nothing")
    path.write_bytes(data)
    with pytest.raises(TypeError, match=r"state\['f'\] is a function"):
        train.save_checkpoint(path, {"f": lambda: 0})
    assert path.read_bytes() == data and os.listdir(tmp_path) == ["a.ckpt"]
