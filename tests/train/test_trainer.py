"""Trainer and DataLoader: figures, order, threads, early stopping, checks."""

import io
import os
import signal
import threading

import numpy as np
import pytest

import tensorx as tx
from tensorx import nn, train
from tensorx.train import progress


def line_data(n=64):
    x = tx.random.normal(0.0, 1.0, (n, 4), generator=tx.random.Generator(1))
    return train.TensorDataset(x, tx.sum(x, axis=1, keepdims=True))


def make(**options):
    tx.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = tx.optim.Adam(model.parameters(), lr=0.05)
    return train.Trainer(model, optimizer, nn.functional.mse_loss, **{"progress": None, **options})


def threads():
    return [t for t in threading.enumerate() if t.name == "tensorx DataLoader"]


# ---- DataLoader ---------------------------------------------------------------------------


def test_batches_cover_the_data_once_in_a_new_order_each_time():
    loader = train.DataLoader(train.TensorDataset(tx.arange(23), tx.arange(23) * 2), 5, shuffle=True, seed=4)
    passes = [list(loader) for _ in range(3)]
    orders = []
    for batches in passes:
        assert [b[0].shape[0] for b in batches] == [5, 5, 5, 5, 3] and len(loader) == 5
        rows = [v for b in batches for v in b[0].tolist()]
        assert sorted(rows) == list(range(23))
        assert [v for b in batches for v in b[1].tolist()] == [2 * v for v in rows]
        orders.append(rows)
    assert orders[0] != orders[1] != orders[2]
    again = train.DataLoader(train.TensorDataset(tx.arange(23)), 5, shuffle=True, seed=4, prefetch=0)
    assert [[v for b in again for v in b[0].tolist()] for _ in range(3)] == orders
    assert len(train.DataLoader(range(23), 5, drop_last=True)) == 4
    assert not threads()


def test_the_order_follows_manual_seed():
    def orders(seed):
        tx.manual_seed(seed)
        loaders = [train.DataLoader(tx.arange(40), 40, shuffle=True) for _ in range(2)]
        return [loader.seed for loader in loaders], [next(iter(loader)).tolist() for loader in loaders]

    first = orders(5)
    assert first == orders(5) != orders(6)
    assert first[1][0] != first[1][1]  # two loaders of one run do not go in step
    state = tx.random.default_generator.get_state()
    train.DataLoader(range(4), 2)  # nothing is random about it
    train.DataLoader(range(4), 2, shuffle=True, seed=1)
    assert tx.random.default_generator.get_state() == state


@pytest.mark.parametrize("prefetch", [0, 2])
def test_what_a_batch_allocates_is_of_the_line_of_the_loop(prefetch):
    loader = train.DataLoader(train.TensorDataset(tx.ones((64, 100))), 16, prefetch=prefetch)
    with tx.memory.record() as r:
        for (batch,) in loader:  # the loop
            assert batch.shape == (16, 100)
    with open(__file__) as f:
        line = next(i for i, text in enumerate(f, 1) if text.rstrip().endswith("# the loop"))
    took = [i for i in r.lines() if i.bytes >= 4 * 16 * 100 * 4]
    assert [(i.file, i.line, i.op, i.count) for i in took] == [(__file__, line, "take", 4)]


@pytest.mark.parametrize("prefetch", [0, 3])
def test_a_pass_goes_on_where_it_was_left(prefetch):
    def fresh():
        return train.DataLoader(train.TensorDataset(tx.arange(23)), 5, shuffle=True, seed=9, prefetch=prefetch)

    loader = fresh()
    whole = [[b[0].tolist() for b in loader] for _ in range(3)]
    loader = fresh()
    list(loader)
    for k, batch in enumerate(loader):
        assert batch[0].tolist() == whole[1][k]
        if k == 1:
            break
    state = loader.state_dict()
    other = fresh()
    other.load_state_dict(state)
    assert [b[0].tolist() for b in other] == whole[1][2:]
    assert [b[0].tolist() for b in other] == whole[2]


def test_items_of_any_kind():
    items = [({"x": np.float32(k), "y": tx.ones(2) * k}, str(k), k) for k in range(4)]
    (first, names, numbers), _ = train.DataLoader(items, 2)
    assert first["x"].tolist() == [0.0, 1.0] and first["y"].shape == (2, 2) and names == ["0", "1"] and numbers.tolist() == [0, 1]
    loader = train.DataLoader([1, 2, 3], 2, collate=sum)
    assert list(loader) == [3, 3]


def test_errors_of_the_data_arrive_in_the_loop_and_no_thread_stays():
    class Bad:
        def __len__(self):
            return 100

        def __getitem__(self, i):
            if i == 7:
                raise RuntimeError("item 7")
            return tx.ones(1)

    seen = 0
    with pytest.raises(RuntimeError, match="item 7"):
        for _ in train.DataLoader(Bad(), 2):
            seen += 1
    assert seen == 3
    for _ in train.DataLoader(line_data(), 2):
        break
    loader = iter(train.DataLoader(line_data(), 2))
    next(loader)
    del loader
    assert not threads()


def test_ctrl_c_while_the_thread_is_started(monkeypatch):
    """It arrives where start() waits for the thread to begin: the thread ends all the same."""
    start = threading.Thread.start

    def interrupted(self):
        start(self)
        raise KeyboardInterrupt

    with monkeypatch.context() as m:
        m.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            next(iter(train.DataLoader(train.TensorDataset(tx.ones(100)), 2)))
    for thread in threads():
        thread.join(timeout=5)
    assert not threads()


@pytest.mark.skipif(not hasattr(signal, "SIGINT"), reason="no signals")
def test_ctrl_c_while_a_batch_is_awaited(run_child):
    done = run_child(
        """
        import os, signal, threading, time
        from tensorx import train

        class Slow:
            def __len__(self):
                return 10
            def __getitem__(self, i):
                time.sleep(0.2 if i else 0)
                return tx.ones(1)

        threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            for _ in train.DataLoader(Slow(), 5):
                pass
        except KeyboardInterrupt:
            print("interrupted", any(t.name == "tensorx DataLoader" for t in threading.enumerate()))
        """,
        timeout=15,
    )
    assert done.stdout.split() == ["interrupted", "False"]


def test_data_sets_refuse():
    with pytest.raises(ValueError, match="one length"):
        train.TensorDataset(tx.ones(3), tx.ones(4))
    with pytest.raises(ValueError):
        train.TensorDataset()
    with pytest.raises(ValueError):
        train.DataLoader(line_data(), 0)
    with pytest.raises(ValueError, match="do not add up"):
        train.random_split(line_data(), [60, 5])
    a, b = train.random_split(line_data(), [0.75, 0.25], seed=2)
    assert len(a) == 48 and len(b) == 16 and not set(a.indices.tolist()) & set(b.indices.tolist())
    assert b[0][0].tolist() == b.dataset[int(b.indices[0])][0].tolist()
    assert a.batch(tx.asarray([1, 0]))[0][1].tolist() == a[0][0].tolist()


# ---- Trainer ---------------------------------------------------------------------------------


def test_training_figures(device):
    trainer = make(metrics={"error": train.Mean(lambda o, t: tx.mean(tx.abs(o - t)))}, device=device, clip_norm=10.0)
    trainer.model.to(device)
    data = line_data()
    loader = train.DataLoader(data, 16, shuffle=True, seed=0)
    history = trainer.fit(loader, 15, validation=train.DataLoader(data, 64))
    assert [h["epoch"] for h in history] == list(range(1, 16))
    assert set(history[0]) == {"epoch", "loss", "error", "val_loss", "val_error", "lr"}
    assert history[-1]["loss"] < history[0]["loss"] / 5
    found = trainer.evaluate(train.DataLoader(data, 7))
    assert found["loss"] == pytest.approx(history[-1]["val_loss"], rel=1e-4)
    assert found["error"] == pytest.approx(history[-1]["val_error"], rel=1e-4)
    assert trainer.model.training and trainer.steps == 60


def test_two_runs_give_the_same_bits():
    def run(count):
        old = tx.get_num_threads()
        tx.set_num_threads(count)
        try:
            trainer = make()
            trainer.fit(train.DataLoader(line_data(), 16, shuffle=True, seed=0), 3)
        finally:
            tx.set_num_threads(old)
        return [p.detach().numpy().tobytes() for p in trainer.model.parameters()]

    assert run(1) == run(1) == run(2)


def test_report_at_step_zero_and_lines():
    out = io.StringIO()
    trainer = make()
    trainer.progress = progress.make("auto", out)
    trainer.fit(train.DataLoader(line_data(), 16), 2)
    text = out.getvalue()
    assert "0.weight" in text and "(8, 4)" in text and "step 0: 4 of 4 parameters have a gradient" in text
    assert "epoch 1/2  loss " in text and "epoch 2/2  loss " in text and text.count("step 0") == 1 and "\r" not in text


def test_bars():
    pytest.importorskip("tqdm")
    out = io.StringIO()
    trainer = make()
    trainer.progress = progress.make("tqdm", out)
    trainer.fit(train.DataLoader(line_data(), 16), 1)
    assert "epoch 1/1" in out.getvalue() and "4/4" in out.getvalue() and "loss" in out.getvalue()
    with pytest.raises(ValueError):
        progress.make("bar")


def test_the_report_names_what_has_no_gradient():
    out = io.StringIO()

    class Part(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.idle = nn.Linear(4, 1), nn.Linear(4, 1)

        def forward(self, x):
            return self.used(x)

    model = Part()
    trainer = train.Trainer(model, tx.optim.SGD(model.parameters(), lr=0.1), nn.functional.mse_loss)
    trainer.progress = progress.make("lines", out)
    with pytest.warns(UserWarning, match=r"idle\.weight, idle\.bias"):
        trainer.fit(train.DataLoader(line_data(), 16), 1)
    assert "step 0: 2 of 4 parameters have a gradient; without: idle.weight, idle.bias" in out.getvalue()


def test_an_error_in_the_loop_ends_the_thread_of_the_loader():
    trainer = make(clip_norm=1.0)
    trainer.loss = lambda out, y: 1 / 0
    with pytest.raises(ZeroDivisionError) as caught:
        trainer.fit(train.DataLoader(line_data(), 4), 1)
    assert not threads() and caught.traceback


def test_nan_gradients_are_named_before_they_do_harm():
    trainer = make(check_nan=True)
    before = trainer.model.state_dict()
    data = line_data()
    data.tensors[0][5, 2] = float("inf")
    with pytest.raises(tx.GradientError, match=r"0\.weight .*not finite in step 0"):
        trainer.fit(train.DataLoader(data, 64), 1)
    for key, value in trainer.model.state_dict().items():
        assert value.tolist() == before[key].tolist()


def test_early_stopping_and_the_best_values():
    class Script(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(tx.zeros(1))

        def forward(self, x):
            return self.w

    values = iter([3.0, 2.0, 1.0, 2.0, 2.5, 2.0, 2.0])
    model = Script()
    stopping = train.EarlyStopping("val_loss", patience=1, restore_best=True)
    optimizer = tx.optim.SGD(model.parameters(), lr=1.0)
    trainer = train.Trainer(model, optimizer, lambda out, t: tx.sum(out), early_stopping=stopping, progress=None)
    trainer.evaluate = lambda loader: {"loss": next(values)}
    history = trainer.fit([(tx.ones(1), tx.ones(1))], 10, validation=[1])
    assert [h["val_loss"] for h in history] == [3.0, 2.0, 1.0, 2.0, 2.5] and trainer.stopped
    assert model.w.tolist() == [-3.0]  # after the third epoch
    with pytest.raises(KeyError, match="val_accuracy"):
        other = make(early_stopping=train.EarlyStopping("val_accuracy"))
        other.fit(train.DataLoader(line_data(), 16), 1)


def test_schedulers_per_epoch_batch_and_plateau():
    for every, steps in (("epoch", 3), ("batch", 12)):
        trainer = make()
        trainer.scheduler = tx.optim.lr_scheduler.ExponentialLR(trainer.optimizer, 0.5)
        trainer.scheduler_every = every
        trainer.fit(train.DataLoader(line_data(), 16), 3)
        assert trainer.optimizer.param_groups[0]["lr"] == pytest.approx(0.05 * 0.5**steps)
    trainer = make()
    trainer.scheduler = tx.optim.lr_scheduler.ReduceLROnPlateau(trainer.optimizer, patience=0, threshold=10.0, mode="max")
    trainer.fit(train.DataLoader(line_data(), 16), 3)
    assert trainer.optimizer.param_groups[0]["lr"] < 0.05


def test_a_finished_run_is_not_run_again(tmp_path):
    path = tmp_path / "x.ckpt"
    trainer = make(checkpoint=path)
    trainer.fit(train.DataLoader(line_data(), 16, seed=1), 2)
    other = make(checkpoint=path)
    assert other.fit(train.DataLoader(line_data(), 16, seed=1), 2) == trainer.history
    assert other.steps == trainer.steps
    assert [p.tolist() for p in other.model.parameters()] == [p.tolist() for p in trainer.model.parameters()]
    third = make(checkpoint=path)
    third.fit(train.DataLoader(line_data(), 16, seed=1), 1, resume=False)
    assert third.steps == 4 and os.path.exists(path)
    with pytest.raises(ValueError):
        train.Trainer(third.model, third.optimizer)
    with pytest.raises(ValueError, match="no batch"):
        make().fit([], 1)
