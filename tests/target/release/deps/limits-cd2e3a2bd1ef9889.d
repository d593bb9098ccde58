/work/main/tests/target/release/deps/limits-cd2e3a2bd1ef9889.d: selftests/src/bin/limits.rs

/work/main/tests/target/release/deps/liblimits-cd2e3a2bd1ef9889.rmeta: selftests/src/bin/limits.rs

selftests/src/bin/limits.rs:
