/work/main/tests/target/release/deps/gpu_control-d9566bcc83b526c6.d: control/src/lib.rs

/work/main/tests/target/release/deps/libgpu_control-d9566bcc83b526c6.rmeta: control/src/lib.rs

control/src/lib.rs:
