/work/main/tests/target/release/deps/gpu_access-a9287bd20741b0e6.d: selftests/src/bin/gpu-access.rs

/work/main/tests/target/release/deps/libgpu_access-a9287bd20741b0e6.rmeta: selftests/src/bin/gpu-access.rs

selftests/src/bin/gpu-access.rs:
