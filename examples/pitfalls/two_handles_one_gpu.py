"""The trap: "device mismatch", and both sides of the message read the same.

Elsewhere opening the GPU twice gives two devices that refuse each other with an error that prints one and the same name twice,
moving between them is not implemented, and asking for a GPU that does not exist ends the process.

tensorx: one name is one device in a process. A second instance has a name of its own, every message prints it, and to() moves.
"""

import copy
import pickle
import threading

from _devices import check, devices

import tensorx as tx

found = devices()
for device in found:
    print(device)
    same = [tx.device(device), copy.deepcopy(tx.device(device)), pickle.loads(pickle.dumps(tx.device(device)))]
    threads = [threading.Thread(target=lambda out, name: out.append(tx.device(name)), args=(same, device)) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    check(all(d is same[0] for d in same), "one name is one object: by name, copied, pickled, from 8 threads")

for name in ("metal:7", "metal:-1", "metal:x", "cuda"):
    try:
        tx.device(name)
    except tx.DeviceNotFoundError as error:
        check("cpu" in str(error), f"{name}: an error that lists what exists")

if "metal" in found:
    a, b = tx.ones(2), tx.ones(2, device="metal")
    try:
        a + b
    except tx.DeviceMismatchError as error:
        check("cpu" in str(error) and "metal:0" in str(error) and ".to(" in str(error), f"mixing says what and how to mend it: {error}")
    other = tx.metal.open(0)
    check(other != tx.device("metal") and other.registry_id == tx.device("metal").registry_id, f"{other}: a second instance of the same GPU")
    c = tx.full((2,), 3.0, device=other)
    try:
        b + c
    except tx.DeviceMismatchError as error:
        check("metal:0#" in str(error), f"its name is not that of the first: {error}")
    check((b + c.to("metal")).tolist() == [4.0, 4.0], "to() moves between the two")

# How to see that you are not hit: print the devices; the names are never the same for two.
names = [d.name for d in tx.devices()]
check(len(set(names)) == len(names), f"devices: {', '.join(names)}")
