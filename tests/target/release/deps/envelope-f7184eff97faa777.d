/work/main/tests/target/release/deps/envelope-f7184eff97faa777.d: selftests/src/bin/envelope.rs

/work/main/tests/target/release/deps/libenvelope-f7184eff97faa777.rmeta: selftests/src/bin/envelope.rs

selftests/src/bin/envelope.rs:
