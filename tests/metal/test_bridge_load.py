"""Finding, loading and refusing the bridge; devices; instances."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tensorx.errors import DeviceNotFoundError, MetalError
from tensorx.metal import abi, bridge

HEADER = Path(bridge.__file__).with_name("bridge.h")


def declared_functions():
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)
    return set(re.findall(r"TXM_API [\w ]+[ *](txm_\w+)\(", text))


def test_every_function_of_the_header_has_a_signature_and_no_other():
    assert declared_functions() == set(abi.SIGNATURES)


def test_signatures_have_as_many_arguments_as_the_header():
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)
    for name, arguments in re.findall(r"TXM_API [\w ]+[ *](txm_\w+)\(([^)]*)\)", text):
        count = 0 if arguments.strip() == "void" else len(arguments.split(","))
        assert count == len(abi.SIGNATURES[name][1]), name


def test_constants_agree_with_the_header():
    text = HEADER.read_text()
    values = {name: int(value) for name, value in re.findall(r"(TXM_[A-Z_]+) = (-?\d+)", text)}
    values |= {name: int(value) for name, value in re.findall(r"#define (TXM_[A-Z_]+) (\d+)", text)}
    ours = {
        "TXM_ABI_VERSION": abi.ABI_VERSION,
        "TXM_SLICE_MS": abi.SLICE_MS,
        "TXM_MAX_BINDINGS": abi.MAX_BINDINGS,
        "TXM_MAX_CONSTANTS": abi.MAX_CONSTANT_BYTES,
    }
    for name, value in ours.items():
        assert values[name] == value, name
    for name, value in values.items():
        mine = getattr(abi, name.removeprefix("TXM_"), None)
        if mine is not None and name not in ours:
            assert mine == value, name


def test_abi_has_no_boolean_long_or_variadic():
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)
    assert not re.search(r"\bBOOL\b|\bbool\b|\blong\b|\.\.\.", text)


def test_no_objective_c_class_is_declared():
    for path in HEADER.parent.glob("bridge*.m"):
        assert "@implementation" not in path.read_text(), path.name


def test_no_blit_no_wait_until_completed_no_available():
    for path in HEADER.parent.glob("bridge*.*"):
        if path.suffix not in (".m", ".h"):
            continue
        code = re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text(), flags=re.S)
        for word in ("waitUntilCompleted", "blitCommandEncoder", "@available", "supportsFamily:MTLGPUFamilyApple7"):
            assert word not in code, (path.name, word)


def test_every_entry_checks_for_a_fork_and_catches_exceptions():
    code = "".join(p.read_text() for p in sorted(HEADER.parent.glob("bridge*.m")))
    plain = {"txm_abi_version", "txm_struct_size", "txm_struct_last", "txm_build_info", "txm_forked", "txm_test_knob",
             "txm_buffer_export"}  # fmt: skip
    for name in declared_functions() - plain:
        body = re.search(rf"^(?:int32_t|void) {name}\(.*?^}}", code, re.S | re.M).group(0)
        assert "txm_is_child" in body or "TXM_ENTER" in body, name
        assert "@catch" in body or "TXM_LEAVE" in body or "ObjC" in body or name == "txm_release", name


def child(code, **env):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, **env}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def test_no_bridge_says_why():
    if sys.platform == "darwin":
        pytest.skip("macOS has a bridge of its own")
    result = child(
        "from tensorx.metal import bridge; print(bridge.unavailable_reason())", TENSORX_METAL_BRIDGE=""
    )
    assert "Metal exists on macOS only" in result.stdout, result.stderr


def test_missing_file_says_so(tmp_path):
    result = child(
        "from tensorx.metal import bridge; print(bridge.unavailable_reason())",
        TENSORX_METAL_BRIDGE=str(tmp_path / "none.so"),
    )
    assert f"there is no file {tmp_path / 'none.so'}" in result.stdout, result.stderr


def test_a_file_that_is_no_library(tmp_path):
    path = tmp_path / "x.so"
    path.write_bytes(b"not a library")
    result = child(
        "from tensorx.metal import bridge; print(bridge.unavailable_reason())", TENSORX_METAL_BRIDGE=str(path)
    )
    assert "cannot be loaded" in result.stdout, result.stderr


def compile_library(tmp_path, text):
    source, library = tmp_path / "other.c", tmp_path / "other.so"
    source.write_text(text)
    try:
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no C compiler: {error}")
    return str(library)


def test_another_version_is_refused_with_both_numbers(tmp_path):
    path = compile_library(tmp_path, "unsigned txm_abi_version(void) { return 77; }")
    with pytest.raises(MetalError, match=rf"has version 77, this tensorx needs version {abi.ABI_VERSION}"):
        bridge.Bridge(path)


def test_a_foreign_library_is_refused(tmp_path):
    path = compile_library(tmp_path, "int nothing;")
    with pytest.raises(MetalError, match="is not a Metal bridge of tensorx"):
        bridge.Bridge(path)


def test_another_struct_layout_is_refused(tmp_path):
    functions = "\n".join(
        f"int {name}(void) {{ return 0; }}"
        for name in abi.SIGNATURES
        if name not in ("txm_abi_version", "txm_struct_size", "txm_struct_last", "txm_build_info")
    )
    path = compile_library(
        tmp_path,
        f"unsigned txm_abi_version(void) {{ return {abi.ABI_VERSION}; }}\n"
        "unsigned txm_struct_size(unsigned w) { return 8; }\nunsigned txm_struct_last(unsigned w) { return 4; }\n"
        'const char *txm_build_info(void) { return "x"; }\n' + functions,
    )
    with pytest.raises(MetalError, match="lays ErrorStruct out in 8 bytes"):
        bridge.Bridge(path)


# ---- devices and instances --------------------------------------------------------------------


def test_default_device_comes_first(metal):
    found = bridge.devices()
    assert [d.ordinal for d in found] == list(range(len(found)))
    assert found[0].default and found[0].name and found[0].max_buffer_bytes > 0
    assert all(a.registry_id < b.registry_id for a, b in zip(found[1:], found[2:]))
    assert len({d.registry_id for d in found}) == len(found)


def test_missing_ordinal_lists_what_exists(metal):
    with pytest.raises(DeviceNotFoundError, match=r"metal:99 does not exist; Metal devices here: metal:0 \("):
        bridge.Instance(99)


def test_intel_macs_are_listed_but_refused(metal):
    metal.txm_test_knob(b"intel", 1)
    try:
        assert "Intel Mac" in bridge.devices()[0].refusal
        with pytest.raises(MetalError, match="Intel Mac"):
            bridge.Instance(0)
        assert "is not supported" in bridge.unavailable_reason()
    finally:
        metal.txm_test_knob(b"intel", 0)
    assert bridge.unavailable_reason() is None


def test_unknown_knob(metal):
    assert metal.txm_test_knob(b"nonsense", 1) == abi.E_ARGUMENT


def test_no_device_says_headless(metal, stand_in):
    code = "from tensorx.metal import bridge; print(bridge.unavailable_reason())"
    result = child(code, SOFTMETAL_DEVICES="0")
    assert "shows no Metal device" in result.stdout, result.stderr


def test_two_devices_have_their_own_numbers(metal, stand_in):
    code = """
        from tensorx.metal import bridge
        found = bridge.devices()
        print(len(found), found[0].default, found[1].default, found[0].registry_id != found[1].registry_id)
        bridge.Instance(1).synchronize()
    """
    result = child(code, SOFTMETAL_DEVICES="2")
    assert result.stdout.split() == ["2", "True", "False", "True"], result.stderr


@pytest.mark.parametrize("macos, math_mode", [(13, False), (15, True)])
def test_capabilities_come_from_the_objects(metal, stand_in, macos, math_mode):
    code = """
        from tensorx.metal import abi, bridge
        d = bridge.devices()[0]
        print(bool(d.capabilities & abi.CAP_MATH_MODE), bool(d.architecture))
        print(bridge.unavailable_reason())
    """
    result = child(code, SOFTMETAL_MACOS=str(macos))
    first, second = result.stdout.splitlines()
    assert first.split()[0] == str(math_mode) and second == "None", result.stdout + result.stderr


def test_hidden_capabilities_take_the_older_branch(metal):
    metal.txm_test_knob(b"capabilities", abi.CAP_MATH_MODE | abi.CAP_ARCHITECTURE)
    try:
        device = bridge.devices()[0]
        assert not device.capabilities & abi.CAP_MATH_MODE and device.architecture == ""
        instance = bridge.Instance(0)
        source = bridge._PROBE.replace("probe", "older_branch")
        assert instance.kernel(source, "older_branch").max_threads > 0
    finally:
        metal.txm_test_knob(b"capabilities", 0)


def test_instances_have_their_own_pools_and_share_kernels(metal):
    one, two = bridge.Instance(0, name="metal:0"), bridge.Instance(0, name="metal:0#2")
    a = one.alloc(100000)
    assert one.stats()["live"] == 100000 and two.stats()["live"] == 0
    source = bridge._PROBE.replace("probe", "shared_kernel")
    first = one.kernel(source, "shared_kernel")
    compiled = one.stats()["compiled"]
    second = two.kernel(source, "shared_kernel")
    assert two.stats()["compiled"] == compiled and first.handle == second.handle
    with pytest.raises(MetalError, match=r"metal:0#2: .*argument 0 is a buffer of another instance"):
        two.encode(second, [bridge.Binding(a, 4)], (1,))
    a.release()
    one.close()
    two.close()


def test_closed_instance_refuses_and_its_buffers_stay_readable(metal):
    instance = bridge.Instance(0)
    buffer = instance.alloc(65536, host=True)
    instance.write(buffer, bytes(range(256)) * 256)
    instance.close()
    instance.close()
    with pytest.raises(MetalError, match="closed"):
        instance.alloc(10)
    assert instance.read(buffer)[:256] == bytes(range(256))
    before = instance.stats()["reserved"]
    buffer.release()
    assert instance.stats()["reserved"] < before


def test_unknown_options_are_refused(metal):
    with pytest.raises(TypeError, match="nonsense"):
        bridge.Instance(0, nonsense=1)
