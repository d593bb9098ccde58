/work/main/tests/target/release/deps/fuzz-bfce5552332ac2d3.d: selftests/src/bin/fuzz.rs

/work/main/tests/target/release/deps/libfuzz-bfce5552332ac2d3.rmeta: selftests/src/bin/fuzz.rs

selftests/src/bin/fuzz.rs:
